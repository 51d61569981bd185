#!/usr/bin/env python3
"""Verdicts over verbs, on one device and on two, equal those over shared memory and a model's."""

import unittest

from verbs_case import SHM, FirstRequests, VerbsCase, over
from counts import Counts

PLACES = (over("rxe0"), over("rxe0,rxe1"))


class CountsTest(Counts, VerbsCase):
    def test_they_are_those_of_shm(self):
        for local_pages in (0, 100):
            over_shm, *over_verbs = (
                self.counts("--pool-bytes", "64MiB", requests=100, local_pages=local_pages, place=place)
                for place in (SHM, *PLACES))
            self.assertGreater(over_shm["verdicts"]["ready"], 500)
            for counts in over_verbs:
                self.assertEqual(counts, over_shm)
        self.assert_nothing_left()


class ProductionTest(FirstRequests, VerbsCase):
    def test_the_first_requests(self):
        self.assert_first_requests(over("rxe0"))

    def test_the_first_requests_on_two_devices(self):
        self.assert_first_requests(over("rxe0,rxe1"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
