"""What the adapters' shared parts make of failures: an exception, whatever it is, is a miss or a
failed store, and told once; keys whose put had no answer are not there until they were removed."""

import asyncio
import types
import unittest

import numpy
from client_case import READY, farpage, key
from farpage.engines import doubtful
from farpage.engines.doubtful import Doubtful
from farpage.engines.guard import answering
from farpage.engines.lookups import Lookups
from farpage.engines.transfers import Job, Transfers
from fake_ticket import FakeTicket

FOREVER_S = 1000
KEYS = [key(number) for number in range(4)]


def array(*numbers):
    return numpy.frombuffer(b"".join(KEYS[number] for number in numbers), numpy.uint8).reshape(-1, 16)


def refuse(*_):
    raise RuntimeError("anything")


class Adapter:
    @answering(lambda *keys: [False] * len(keys))
    def load(self, *keys, error=None):
        if error is not None:
            raise error
        return [True] * len(keys)


class GuardTest(unittest.TestCase):
    def test_an_answer_in_place_of_an_exception(self):
        adapter = Adapter()
        self.assertEqual(adapter.load(1, 2), [True, True])
        with self.assertLogs("farpage", "ERROR") as said:
            for error in (RuntimeError("one"), RuntimeError("two"), farpage.InvalidError("write it so")):
                self.assertEqual(adapter.load(1, 2, error=error), [False, False])
        self.assertEqual(len(said.output), 2, said.output)
        self.assertIn("Traceback", said.output[0])
        self.assertEqual(said.output[1], "ERROR:farpage:farpage: load: write it so")

    def test_lookups(self):
        ticket = FakeTicket([READY], error=RuntimeError("anything"))
        ticket.end()
        for begin in (refuse, lambda _: ticket):
            lookups = Lookups(list, begin, FOREVER_S)
            with self.assertLogs("farpage", "ERROR") as said:
                for request in "ab":
                    self.assertIsNone(lookups.find(b"there", request))
                    lookups.ask()
                    self.assertIs(lookups.find(b"there", request), False)
            self.assertFalse(lookups.is_waiting)
            self.assertEqual(len(said.output), 1, said.output)

    def test_one_of_several_jobs(self):
        for is_load in (True, False):
            good = FakeTicket([READY]) if is_load else FakeTicket(codes=[farpage.Code.OK])
            begins = (lambda _, good=good: good, lambda _: FakeTicket(error=RuntimeError("anything")), refuse, lambda _, good=good: good)
            jobs = [Job(number, [b"%d" % number], is_load, 4, FOREVER_S, begin) for number, begin in enumerate(begins)]
            lost = []
            transfers = Transfers(load_bytes=100, store_bytes=100, lost=lost.extend)
            with self.assertLogs("farpage", "ERROR"):
                for job in jobs:
                    transfers.submit(job)
                    if job.ticket is not None:
                        job.ticket.end()
                ended = {job.number: job.done for job in transfers.take_ended()}
            self.assertEqual(ended, {0: [b"0"], 1: [], 2: [], 3: [b"3"]})
            self.assertTrue(transfers.is_idle)
            self.assertEqual(sorted(lost), [b"1", b"2"] if is_load else [])


class DoubtfulTest(unittest.TestCase):
    def setUp(self):
        self.begun, self.removed, self.fails = [], [], False
        self.doubtful = Doubtful(types.SimpleNamespace(begin=lambda work: self.begun.append(work())), 5)
        self.addCleanup(lambda: [each.close() for each in self.begun])

    async def remove(self, keys, timeout_s):
        self.removed.append(({bytes(each) for each in keys}, timeout_s))
        if self.fails:
            raise farpage.FarpageTimeoutError("no answer")
        for each in self.while_removing:
            each()

    while_removing = ()

    def certain(self, *numbers):
        return self.doubtful.certain(self, array(*numbers)).tolist()

    def put(self, good=(), unanswered=(), numbers=range(4)):
        is_good, is_open = (numpy.array([number in which for number in numbers]) for which in (good, unanswered))
        self.doubtful.put(array(*numbers), is_good, is_open)

    def run_removals(self):
        begun, self.begun = self.begun, []
        for each in begun:
            asyncio.run(each)

    def test_those_without_an_answer_are_not_there_until_they_were_removed(self):
        self.put(good={0, 3}, unanswered={1, 2})
        self.assertEqual(self.certain(0, 3), [True, True])
        self.assertEqual(self.begun, [])  # nobody has asked for them
        self.assertEqual((self.certain(0, 1, 2), self.certain(2, 3)), ([True, False, False], [False, True]))
        self.assertEqual(len(self.begun), 1)  # one removal at a time
        self.run_removals()
        self.assertEqual((self.removed, self.certain(0, 1, 2, 3)), ([({KEYS[1], KEYS[2]}, 5)], [True] * 4))

    def test_a_removal_that_failed_is_tried_again_when_one_of_them_is_asked_for(self):
        self.put(unanswered={1})
        self.fails = True
        for tried in (1, 2):
            self.assertEqual(self.certain(1), [False])
            self.run_removals()
            self.assertEqual(len(self.removed), tried)
        self.fails = False
        self.assertEqual(self.certain(1), [False])
        self.run_removals()
        self.assertEqual(self.certain(1), [True])

    def test_one_that_comes_while_others_are_removed_stays(self):
        self.put(unanswered={1})
        self.while_removing = (lambda: self.put(unanswered={2}),)
        self.certain(1)
        self.run_removals()
        self.assertEqual(self.certain(1, 2), [True, False])

    def test_one_that_is_put_again_without_an_answer_while_it_is_removed_stays(self):
        for remove in (lambda: self.certain(1), lambda: self.begun.append(self.doubtful.remove(self, array(1), 5))):
            self.put(unanswered={1})
            self.while_removing = (lambda: self.put(unanswered={1}),)
            remove()
            self.run_removals()
            self.while_removing = ()
            self.assertEqual(self.certain(1), [False])
            self.run_removals()
            self.assertEqual(self.certain(1), [True])

    def test_those_whose_removal_failed_stay(self):
        self.put(unanswered={1})
        self.fails = True
        with self.assertRaises(farpage.FarpageTimeoutError):
            asyncio.run(self.doubtful.remove(self, array(1), 5))
        self.assertEqual(self.certain(1), [False])

    def test_what_was_put_again_or_removed_is_certain(self):
        self.put(unanswered={1, 2, 3})
        self.put(good={1})
        asyncio.run(self.doubtful.remove(self, array(2), 5))
        self.assertEqual(self.certain(1, 2, 3), [True, True, False])

    def test_who_finds_no_room_has_all_of_them_removed(self):
        numbers = numpy.arange(doubtful.MOST, dtype=numpy.uint64)
        keys = numpy.zeros((len(numbers), 2), numpy.uint64)
        keys[:, 0] = numbers
        keys = keys.view(numpy.uint8)
        self.doubtful.put(keys[1:], numpy.zeros(len(keys) - 1, bool), numpy.ones(len(keys) - 1, bool))
        self.assertTrue(self.doubtful.has_room(self))
        self.assertEqual(self.begun, [])
        self.doubtful.put(keys[:1], numpy.zeros(1, bool), numpy.ones(1, bool))
        for self.fails in (True, False):  # and again, if the nodes do not answer
            self.assertEqual([self.doubtful.has_room(self) for _ in range(2)], [False, False])
            self.assertEqual(len(self.begun), 1)
            self.run_removals()
            self.assertEqual(len(self.removed.pop()[0]), doubtful.MOST)
        self.assertTrue(self.doubtful.has_room(self))


if __name__ == "__main__":
    unittest.main()
