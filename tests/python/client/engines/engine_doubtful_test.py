"""Keys whose put had no answer: they are not there until they were removed."""

import asyncio
import types
import unittest

import numpy
from client_case import farpage, key
from farpage.engines import doubtful
from farpage.engines.doubtful import Doubtful

KEYS = [key(number) for number in range(4)]


def array(*numbers):
    return numpy.frombuffer(b"".join(KEYS[number] for number in numbers), numpy.uint8).reshape(-1, 16)


class DoubtfulTest(unittest.TestCase):
    def setUp(self):
        self.begun, self.removed, self.fails = [], [], False
        self.doubtful = Doubtful(types.SimpleNamespace(begin=lambda work: self.begun.append(work())), 5)
        self.addCleanup(lambda: [each.close() for each in self.begun])

    async def remove(self, keys, timeout_s):
        self.removed.append((set(keys), timeout_s))
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

    def test_what_was_put_again_or_removed_is_certain(self):
        self.put(unanswered={1, 2, 3})
        self.put(good={1})
        self.doubtful.forget(array(2))
        self.assertEqual(self.certain(1, 2, 3), [True, True, False])

    def test_it_is_full_in_the_end(self):
        numbers = numpy.arange(doubtful.MOST, dtype=numpy.uint64)
        keys = numpy.zeros((len(numbers), 2), numpy.uint64)
        keys[:, 0] = numbers
        keys = keys.view(numpy.uint8)
        self.doubtful.put(keys[1:], numpy.zeros(len(keys) - 1, bool), numpy.ones(len(keys) - 1, bool))
        self.assertFalse(self.doubtful.is_full)
        self.doubtful.put(keys[:1], numpy.zeros(1, bool), numpy.ones(1, bool))
        self.assertTrue(self.doubtful.is_full)


if __name__ == "__main__":
    unittest.main()
