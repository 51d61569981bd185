"""What the adapters for engines share, without an engine: lookups, transfers, and a
client that comes later."""

import logging
import os
import unittest

import numpy
from client_case import PAGE_BYTES, READY, RECOMPUTE, ClientCase, content, contents, farpage, key, keys, run_script
from farpage.engines.connection import Connection
from farpage.engines.figures import Figures
from farpage.engines.lookups import Lookups
from farpage.engines.transfers import Job, Transfers
from fake_ticket import FakeTicket
from program import Case, wait_until

FOREVER_S = 1000
SPACE = farpage.KeySpace(model="m")


class LookupsTest(unittest.TestCase):
    def setUp(self):
        self.asked, self.tickets = [], []
        self.lookups = Lookups(list, self.begin, FOREVER_S)

    def begin(self, names):
        self.asked.append(names)
        self.tickets.append(FakeTicket([READY if name.startswith(b"there") else RECOMPUTE for name in names]))
        return self.tickets[-1]

    def test_keys_of_all_requests_are_one_question(self):
        self.assertEqual([self.lookups.find(name, request) for name, request in ((b"there 1", "a"), (b"gone", "a"), (b"there 1", "b"))], [None] * 3)
        self.assertTrue(self.lookups.is_waiting)
        self.lookups.ask()
        self.lookups.ask()
        self.assertEqual(self.asked, [[b"there 1", b"gone", b"there 1"]])
        self.assertIsNone(self.lookups.find(b"there 1", "a"))
        self.tickets[0].end()
        self.lookups.take()
        self.assertEqual([self.lookups.find(name, request) for name, request in ((b"there 1", "a"), (b"gone", "a"), (b"there 1", "b"))], [True, False, True])
        self.assertFalse(self.lookups.is_waiting)

    def test_each_request_has_the_answers_to_its_own_keys(self):
        asked = [(b"there 1", "a"), (b"gone", "a"), (b"gone", "b"), (b"there 2", "b")]
        for name, request in asked:
            self.lookups.find(name, request)
        self.lookups.ask()
        self.tickets[0].end()
        self.lookups.take()
        self.assertEqual([self.lookups.find(name, request) for name, request in asked], [True, False, False, True])

    def test_who_is_gone_before_the_question_is_not_asked_for(self):
        self.lookups.find(b"there 1", "a")
        self.lookups.find(b"there 2", "b")
        self.lookups.forget("a")
        self.lookups.ask()
        self.assertEqual(self.asked, [[b"there 2"]])

    def test_a_second_question_has_its_own_time(self):
        took = iter((FOREVER_S / 4, 0))
        lookups = Lookups(list, lambda names: FakeTicket([READY] * len(names), took_s=next(took)), FOREVER_S)
        for name in (b"there 1", b"there 2"):
            lookups.find(name, "a")
            lookups.ask()
            lookups._asked[0][0].end()
            lookups.take()
        self.assertEqual(lookups.left_s("a"), FOREVER_S)

    def test_a_reset_forgets_questions_and_answers(self):
        for name in (b"there 1", b"there 2"):
            self.lookups.find(name, "a")
            self.lookups.ask()
        self.tickets[0].end()
        self.lookups.take()
        self.lookups.find(b"there 3", "a")
        self.lookups.reset()
        self.assertFalse(self.lookups.is_waiting)
        self.tickets[1].end()
        names = [b"there 1", b"there 2", b"there 3"]
        self.assertEqual([self.lookups.find(name, "a") for name in names], [None] * 3)
        self.lookups.ask()
        self.assertEqual(self.asked[-1], names)
        self.assertIsNone(self.lookups.find(b"there 2", "a"))

    def test_a_page_that_was_lost_is_found_by_no_request_of_now(self):
        for request in "ab":
            for name in (b"there", b"there 2", b"there 3"):
                self.lookups.find(name, request)
        self.lookups.ask()
        self.lookups.lose([b"there", b"there 3", b"never heard of"])
        self.tickets[0].end()
        self.lookups.take()  # an answer of before does not bring it back
        for request in "ab":
            self.assertEqual([self.lookups.find(name, request) for name in (b"there", b"there 2", b"there 3")], [False, True, False])
        self.lookups.forget("a")
        self.assertIsNone(self.lookups.find(b"there", "a"))  # asks anew

    def test_the_answer_to_a_request_that_is_gone_is_nobodys(self):
        self.lookups.find(b"there", "a")
        self.lookups.ask()
        self.lookups.forget("a")
        self.tickets[0].end()
        self.lookups.take()
        self.assertFalse(self.lookups.is_waiting)
        self.assertIsNone(self.lookups.find(b"there", "a"))

    def test_who_cannot_be_asked_has_nothing(self):
        def refuse(_):
            raise farpage.ExhaustedError("too many")

        for begin in (refuse, lambda _: None):
            lookups = Lookups(list, begin, FOREVER_S)
            self.assertIsNone(lookups.find(b"there", "a"))
            lookups.ask()
            self.assertFalse(lookups.find(b"there", "a"))
            self.assertFalse(lookups.is_waiting)


    def test_what_the_question_took_is_no_time_for_the_load(self):
        lookups = Lookups(list, lambda names: FakeTicket([READY] * len(names), took_s=FOREVER_S / 4), FOREVER_S)
        self.assertEqual(lookups.left_s("a"), FOREVER_S)
        lookups.find(b"there", "a")
        lookups.ask()
        lookups._asked[0][0].end()
        lookups.take()
        # Nothing runs until the engine hears of it.
        self.assertEqual(lookups.left_s("a"), FOREVER_S * 3 / 4)
        self.assertTrue(lookups.find(b"there", "a"))
        self.assertLess(lookups.left_s("a"), FOREVER_S * 3 / 4)

    def test_answers_are_taken_once_and_then_need_no_call(self):
        names = [b"there %d" % number for number in range(8)]
        for name in names:
            self.lookups.find(name, "a")
        self.lookups.ask()
        self.tickets[0].end()
        self.lookups.take()
        self.lookups.take()
        self.assertEqual([self.lookups.find(name, "a") for name in names], [True] * 8)
        self.lookups.ask()
        self.assertEqual((self.tickets[0].results, len(self.tickets)), (1, 1))

    def test_an_answer_without_time_for_the_load_is_none(self):
        figures = Figures()
        lookups = Lookups(list, self.begin, 0, figures=figures)
        for request in "ab":
            lookups.find(b"there", request)
        lookups.ask()
        self.tickets[0].end()
        lookups.take()
        self.assertEqual([lookups.find(b"there", request) for request in "aab"], [False] * 3)
        self.assertEqual(figures.of("pages")["overdue"], 2)  # each page of a request counts once

    def test_names_of_a_question_are_made_once(self):
        made = []

        def name(names):
            made.append(list(names))
            return [each.upper() for each in names]

        lookups = Lookups(name, self.begin, FOREVER_S)
        asked = [(b"1", "a"), (b"2", "a"), (b"3", "a"), (b"2", "b")]
        for each, request in asked:
            lookups.find(each, request)
        self.assertEqual(lookups.names([b"x", b"y"], "a"), [b"X", b"Y"])  # not asked yet
        lookups.ask()
        self.assertEqual(made, [[b"x", b"y"], [b"1", b"2", b"3", b"2"]])
        made.clear()
        # In another order, with others between them, or of another request: made anew.
        for keys, request, is_new in (([b"1", b"2", b"3"], "a", False), ([b"2", b"3"], "a", False), ([b"2"], "b", False), ([], "a", True),
                                      ([b"2", b"1"], "a", True), ([b"1", b"3"], "a", True), ([b"3", b"4"], "a", True), ([b"3"], "b", True)):
            made.clear()
            self.assertEqual(lookups.names(keys, request), keys)
            self.assertEqual(made, [keys] if is_new else [], keys)

    def test_an_answer_is_spent_once(self):
        self.lookups.find(b"there", "a")
        self.lookups.find(b"there", "b")
        self.lookups.ask()
        self.tickets[0].end()
        self.lookups.take()
        self.lookups.spend(b"there", "a")
        self.assertEqual([self.lookups.find(b"there", request) for request in "ab"], [False, True])

    def test_of_what_is_there_a_part_may_be_chosen(self):
        seen = []

        def choose(names, found, left_s):
            seen.append((names, found, left_s))
            return [is_there and name != b"there 2" for name, is_there in zip(names, found)]

        lookups = Lookups(list, self.begin, FOREVER_S, choose)
        names = [b"there 1", b"gone", b"there 2"]
        for request in "ab":
            for name in names:
                lookups.find(name, request)
        lookups.ask()
        self.tickets[0].end()
        lookups.take()
        self.assertEqual(seen, [(names, [True, False, True], FOREVER_S)] * 2)
        self.assertEqual([lookups.find(name, "b") for name in names], [True, False, False])

    def test_an_answer_to_a_request_that_asks_anew(self):
        self.lookups.find(b"there", "a")
        self.lookups.ask()
        self.lookups.forget("a")  # it was preempted
        self.lookups.find(b"there 2", "a")
        self.tickets[0].end()
        self.lookups.ask()
        self.assertIsNone(self.lookups.find(b"there", "a"))
        self.tickets[1].end()
        self.lookups.take()
        self.assertTrue(self.lookups.find(b"there 2", "a"))


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
        for ticket in loads:
            ticket.end()
            transfers.take_ended()
        self.assertEqual(self.begun, [0, 1, 11])
        stored.end()
        self.assertEqual(self.ended(transfers), {11: [b"11 a"]})
        self.assertEqual((transfers.counts["dropped"], transfers.counts["stored"], transfers.counts["not stored"]), (2, 1, 1))
        self.assertEqual(self.lost, [])

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

    def test_drain_ends_those_that_wait_too(self):
        transfers = self.transfers()
        for number in range(3):
            transfers.submit(self.job(number, is_load=True, ticket=FakeTicket([READY, READY])))
        transfers.submit(self.job(3, is_load=False, ticket=FakeTicket(codes=[farpage.Code.OK] * 2)))
        transfers.drain()
        self.assertTrue(transfers.is_idle)
        self.assertEqual(len(self.ended(transfers)), 4)


class ConnectionTest(Case):
    def setUp(self):
        super().setUp()
        logging.getLogger("farpage").addHandler(logging.NullHandler())
        self.socket = self.folder / "node.sock"
        self.prepared = []

    def connection(self, prepare=None):
        made = Connection({"node": str(self.socket), "connect_ms": 200}, prepare or self.prepared.append, SPACE)
        self.addCleanup(made.close)
        return made

    def test_a_node_that_comes_later_is_used(self):
        connection = self.connection()
        self.assertTrue(wait_until(lambda: "start one" in connection.why_not), connection.why_not)
        self.assertIsNone(connection.client)
        node = self.start_node()
        self.assertTrue(wait_until(lambda: connection.client is not None))
        self.assertEqual(self.prepared, [connection.client])
        memory = numpy.ones((1, 4096), numpy.uint8)
        self.assertFalse(connection.client.put(SPACE.keys(["page"]), memory, timeout_s=20).wait()["code"].any())
        self.assertEqual([each["facts"] for each in self.status(node)["namespaces"]], [{"model": "m"}])
        connection.close()
        self.assertIsNone(connection.client)

    def test_a_client_that_cannot_be_prepared_is_closed(self):
        opened = []
        mended = []

        def prepare(client):
            opened.append(client)
            if not mended:
                raise (farpage.UnavailableError, farpage.ExhaustedError)[len(opened) % 2]("not yet")

        self.start_node()
        connection = self.connection(prepare)
        self.assertTrue(wait_until(lambda: len(opened) >= 2))
        mended.append(True)
        self.assertTrue(wait_until(lambda: connection.client is not None))
        self.assertIs(connection.client, opened[-1])
        for client in opened[:-1]:
            with self.assertRaisesRegex(farpage.InvalidError, "closed"):
                client.exists(key(1))

    def test_what_no_node_mends_ends_it(self):
        def refuse(_):
            raise farpage.InvalidError("pages are too small")

        self.start_node()
        connection = self.connection(refuse)
        connection._thread.join()
        self.assertIn("too small", connection.why_not)
        self.assertIsNone(connection.client)

    def test_facts_are_the_engines(self):
        connection = Connection({"node": str(self.socket), "facts": "model=a"}, self.prepared.append, SPACE)
        connection._thread.join()
        self.assertIn('leave out "facts"', connection.why_not)

    def test_an_interpreter_that_exits_closes_the_client(self):
        """Also in the middle of an operation, which farpage's own exit would leave to itself."""
        node = self.start_node(listen="tcp://127.0.0.1:0")
        script = f"""
import atexit, farpage.client, os, signal
from farpage.engines.connection import Connection
from program import wait_until
atexit.register(lambda: print(ticket.released))
farpage.client.EXIT_S = 0
made = Connection({{"node": {node.address!r}}}, lambda client: None, farpage.KeySpace(model="m"))
assert wait_until(lambda: made.client is not None)
os.kill({node.pid}, signal.SIGSTOP)
ticket = made.client.put(bytes(16), bytes(64), timeout_s=0.5)
"""
        result = run_script(script)
        self.assertEqual((result.returncode, result.stdout), (0, "True\n"), result.stderr)

    def test_it_ends_while_it_tries(self):
        self.connection().close()


class OverANodeTest(ClientCase):
    """The parts together, as an adapter has them."""

    def test_stored_pages_are_found_and_loaded(self):
        memory = contents(0, 4)
        region = self.client.register(memory)
        lookups = Lookups(list, self.client.exists, FOREVER_S)
        transfers = Transfers(load_bytes=PAGE_BYTES, store_bytes=4 * PAGE_BYTES, lost=lookups.lose)
        pages = region.pages(numpy.arange(4) * PAGE_BYTES, PAGE_BYTES)
        transfers.submit(Job(1, keys(0, 4), False, 4 * PAGE_BYTES, FOREVER_S, lambda s: self.client.put(keys(0, 4), pages, timeout_s=s)))
        transfers.drain()
        self.assertTrue(transfers.take_ended()[0].is_whole)
        for name in keys(0, 5):
            lookups.find(name, "request")
        lookups.ask()
        self.assertTrue(wait_until(lambda: lookups.take() or not lookups.is_waiting))
        self.assertEqual([lookups.find(name, "request") for name in keys(0, 5)], [True] * 4 + [False])
        memory[:] = 0
        transfers.submit(Job(2, keys(0, 4), True, 4 * PAGE_BYTES, FOREVER_S, lambda s: self.client.fetch(keys(0, 4), pages, timeout_s=s)))
        transfers.drain()
        self.assertTrue(transfers.take_ended()[0].is_whole)
        self.assertEqual(memory.tobytes(), contents(0, 4).tobytes())
        region.close()


if __name__ == "__main__":
    unittest.main()
