"""Loads and stores of an engine: which begins when, which is dropped, and what of each came."""

import unittest
from unittest import mock

from client_case import READY, RECOMPUTE, farpage
from fake_ticket import FakeTicket
from farpage.engines.figures import Figures
from farpage.engines.transfers import Job, Transfers

FOREVER_S = 1000


class TransfersTest(unittest.TestCase):
    def setUp(self):
        self.begun, self.lost = [], []

    def transfers(self, load_bytes=4, store_bytes=4):
        return Transfers(load_bytes=load_bytes, store_bytes=store_bytes, lost=self.lost.extend)

    def job(self, number, *, is_load, length=4, ticket=None, timeout_s=FOREVER_S):
        def begin(timeout_s):
            self.begun.append(number)
            if ticket is None:
                raise farpage.UnavailableError("no node")
            self.assertLessEqual(timeout_s, FOREVER_S)
            return ticket

        return Job(number, [b"%d a" % number, b"%d b" % number], is_load, length, timeout_s, begin)

    def ended(self, transfers):
        return {job.number: job.done for job in transfers.take_ended()}

    def test_a_load_says_which_pages_came(self):
        transfers, ticket = self.transfers(), FakeTicket([READY, RECOMPUTE])
        transfers.submit(self.job(1, is_load=True, ticket=ticket))
        self.assertEqual(self.ended(transfers), {})
        ticket.end(released=False)
        self.assertEqual(self.ended(transfers), {})  # its memory may still be written
        self.assertEqual(self.lost, [b"1 b"])  # and who asks for the page hears that it is gone
        ticket.end()
        self.assertEqual(self.ended(transfers), {1: [b"1 a"]})
        self.assertTrue(transfers.is_idle)
        self.assertEqual(transfers.counts, {"ready": 1, "miss": 1})

    def test_loads_beyond_the_bound_wait_and_are_overdue_in_the_end(self):
        transfers, first = self.transfers(), FakeTicket([READY, READY])
        transfers.submit(self.job(1, is_load=True, ticket=first))
        transfers.submit(self.job(2, is_load=True, ticket=FakeTicket(), timeout_s=0))
        self.assertEqual(self.begun, [1])
        self.assertEqual(self.ended(transfers), {2: []})
        self.assertEqual(self.lost, [b"2 a", b"2 b"])
        transfers = self.transfers()
        self.begun.clear()
        transfers.submit(self.job(1, is_load=True, ticket=first))
        transfers.submit(self.job(2, is_load=True, ticket=FakeTicket()))
        first.end()
        self.assertEqual(self.ended(transfers), {1: [b"1 a", b"1 b"]})
        self.assertEqual(self.begun, [1, 2])

    def test_what_was_promised_is_no_room_for_others(self):
        transfers, ticket = self.transfers(load_bytes=8), FakeTicket([READY, READY])
        self.assertEqual([transfers.promise(4) for _ in range(3)], [True, True, False])
        transfers.submit(self.job(1, is_load=True, ticket=ticket))
        transfers.end_promises()  # the second one was not submitted
        self.assertEqual([transfers.promise(4) for _ in range(2)], [True, False])
        transfers.end_promises()
        ticket.end()
        transfers.take_ended()
        # A large one goes alone.
        self.assertEqual([transfers.promise(100), transfers.promise(1)], [True, False])

    def test_what_waits_is_room_that_is_taken(self):
        transfers, tickets = self.transfers(load_bytes=8), [FakeTicket([READY, READY]) for _ in range(2)]
        for number, (length, ticket) in enumerate(zip((6, 4), tickets)):
            transfers.submit(self.job(number, is_load=True, length=length, ticket=ticket))
        self.assertEqual((self.begun, transfers.promise(2)), ([0], False))

    def test_who_waited_for_room_has_what_is_left_of_its_time(self):
        transfers, first = self.transfers(), FakeTicket([READY, READY])
        given = []
        waiting = Job(2, [b"2"], True, 4, FOREVER_S, lambda timeout_s: given.append(timeout_s) or FakeTicket([READY]))
        transfers.submit(self.job(1, is_load=True, ticket=first))
        transfers.submit(waiting)
        waiting.begun_s -= FOREVER_S / 2  # so long ago
        first.end()
        transfers.take_ended()
        self.assertLessEqual(given[0], FOREVER_S / 2)

    def test_stores_wait_for_loads_and_the_oldest_are_dropped(self):
        transfers, loads = self.transfers(), [FakeTicket([READY, READY]) for _ in range(2)]
        for number, ticket in enumerate(loads):
            transfers.submit(self.job(number, is_load=True, ticket=ticket))
        stored = FakeTicket(codes=[farpage.Code.OK, farpage.Code.TIMEOUT])
        transfers.submit(self.job(10, is_load=False, ticket=FakeTicket()))
        transfers.submit(self.job(11, is_load=False, ticket=stored))
        self.assertEqual(self.begun, [0])
        self.assertEqual(self.ended(transfers), {10: []})
        loads[0].end()
        transfers.take_ended()
        self.assertEqual(self.begun, [0, 1, 11])  # no load waits any more
        loads[1].end()
        transfers.take_ended()
        stored.end()
        self.assertEqual(self.ended(transfers), {11: [b"11 a"]})
        self.assertEqual((transfers.counts["dropped"], transfers.counts["stored"], transfers.counts["not stored"]), (2, 1, 1))
        self.assertEqual(self.lost, [])

    def test_those_that_fill_the_bound_go_together(self):
        for is_load in (True, False):
            transfers = self.transfers(load_bytes=8, store_bytes=8)
            self.begun.clear()
            for number in range(3):
                transfers.submit(self.job(number, is_load=is_load, ticket=FakeTicket()))
            self.assertEqual(self.begun, [0, 1])

    def test_a_job_that_ends_while_it_is_looked_at_ends_at_the_next_look(self):
        transfers, ticket = self.transfers(), FakeTicket([READY, READY])
        transfers.submit(self.job(1, is_load=True, ticket=ticket))
        ticket.released = True  # and it was not yet done when that was asked
        self.assertEqual(self.ended(transfers), {})
        ticket.end()
        self.assertEqual(self.ended(transfers), {1: [b"1 a", b"1 b"]})

    def test_a_store_that_waits_for_loads_ends_by_its_time(self):
        transfers, ticket = self.transfers(), FakeTicket([READY, READY])
        waiting = self.job(10, is_load=False, ticket=FakeTicket())
        for job in (self.job(0, is_load=True, ticket=ticket), self.job(1, is_load=True, ticket=ticket), waiting):
            transfers.submit(job)
        self.assertEqual(self.ended(transfers), {})
        waiting.begun_s -= FOREVER_S  # so long ago
        self.assertEqual(self.ended(transfers), {10: []})
        self.assertEqual((self.begun, transfers.counts, self.lost), ([0], {"dropped": 2}, []))

    def test_one_that_is_larger_than_the_bound_goes_alone(self):
        transfers = self.transfers()
        transfers.submit(self.job(1, is_load=True, length=100, ticket=FakeTicket()))
        self.assertEqual(self.begun, [1])

    def test_without_a_node_they_end_at_once(self):
        transfers = self.transfers()
        transfers.submit(self.job(1, is_load=True))
        transfers.submit(self.job(2, is_load=False))
        self.assertEqual(self.ended(transfers), {1: [], 2: []})
        self.assertEqual(self.lost, [b"1 a", b"1 b"])
        self.assertEqual(transfers.counts, {"refused": 2, "dropped": 2})

    def test_figures_are_what_was_done(self):
        figures = Figures()
        transfers = Transfers(load_bytes=4, store_bytes=4, lost=self.lost.extend, figures=figures)
        late = farpage.Code.TIMEOUT
        for is_load, ticket in ((True, FakeTicket([READY, RECOMPUTE], took_s=[0.25, 0.5])), (False, FakeTicket(codes=[farpage.Code.OK, late])),
                                (True, FakeTicket([READY, RECOMPUTE], reason=farpage.Reason.STALLED)),
                                (True, FakeTicket([READY, RECOMPUTE], reason=farpage.Reason.UNREACHABLE)),
                                (False, FakeTicket(codes=[farpage.Code.OK, farpage.Code.UNAVAILABLE]))):
            transfers.submit(self.job(1, is_load=is_load, ticket=ticket))
            ticket.end()
            job, = transfers.take_ended()
            self.assertEqual((job.done_bytes, job.is_whole), (2, False))  # of 4, and of two pages
        self.assertEqual(figures.of("pages"), {"ready": 3, "miss": 1, "stalled": 1, "unreachable": 1, "stored": 2, "not stored": 2})
        self.assertEqual((figures.of("bytes"), figures.of("stalls")), ({"load": 6, "store": 4}, {"load": 2, "store": 1}))
        self.assertEqual(figures.of("seconds")["load"], 0.5)

    def test_one_whose_time_is_over_while_it_waits_is_a_stall(self):
        figures = Figures()
        transfers = Transfers(load_bytes=4, store_bytes=4, lost=self.lost.extend, figures=figures)
        transfers.submit(self.job(1, is_load=True, ticket=FakeTicket()))
        transfers.submit(self.job(2, is_load=True, ticket=FakeTicket(), timeout_s=0))
        self.assertEqual((figures.of("pages"), figures.of("stalls")), ({"overdue": 2}, {"load": 1}))

    def test_one_that_is_refused_has_ended(self):
        transfers = self.transfers()
        for is_load in (True, False):
            transfers.refuse(Job(is_load, [b"a", b"b"], is_load))
        self.assertEqual((self.ended(transfers), transfers.counts), ({True: [], False: []}, {"refused": 2, "dropped": 2}))
        self.assertEqual(self.lost, [b"a", b"b"])

    def test_whatever_fails_in_one_job_each_ends(self):
        transfers, good = self.transfers(load_bytes=8), FakeTicket([READY, READY])
        bad = mock.Mock(done=True, result=mock.Mock(side_effect=RuntimeError("anything")))
        for number, ticket in enumerate((bad, good)):
            transfers.submit(self.job(number, is_load=True, ticket=ticket))
        good.end()
        with mock.patch.object(transfers, "_lost", side_effect=RuntimeError("anything")), self.assertLogs("farpage", "ERROR"):
            self.assertEqual(self.ended(transfers), {1: [b"1 a", b"1 b"]})
        self.assertEqual(self.ended(transfers), {0: []})

    def test_one_whose_begin_is_in_doubt_is_tried_again(self):
        transfers, ticket = self.transfers(), FakeTicket([READY, READY])
        with mock.patch.object(transfers, "_has_room", side_effect=RuntimeError("anything")), self.assertLogs("farpage", "ERROR"):
            transfers.submit(self.job(1, is_load=True, ticket=ticket))
        self.assertFalse(transfers.is_idle)
        ticket.end()
        self.assertEqual([self.ended(transfers) for _ in range(2)], [{}, {1: [b"1 a", b"1 b"]}])

    def test_a_job_of_no_pages_is_whole(self):
        job = Job(1, [], True, 0, FOREVER_S, lambda timeout_s: FakeTicket())
        self.assertEqual((job.done_bytes, job.is_whole), (0, True))

    def test_drain_ends_those_that_wait_too(self):
        transfers = self.transfers()
        for number in range(3):
            transfers.submit(self.job(number, is_load=True, ticket=FakeTicket([READY, READY])))
        transfers.submit(self.job(3, is_load=False, ticket=FakeTicket(codes=[farpage.Code.OK] * 2)))
        transfers.drain()
        self.assertTrue(transfers.is_idle)
        self.assertEqual(len(self.ended(transfers)), 4)


if __name__ == "__main__":
    unittest.main()
