#!/usr/bin/env python3
"""Verdicts over verbs, on one device and on two, are those over shared memory, and those that a model knows."""

import itertools
import json
import unittest

from verbs_case import SHM, VerbsCase, over
from counts import Counts
from production import TRACE, require_trace

PLACES = (over("rxe0"), over("rxe0,rxe1"))
PATIENCE_S = 280


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


class ProductionTest(Counts, VerbsCase):
    REQUESTS, PAGES = 2_000, 54_559
    FEW_REQUESTS = 300  # the machine takes its time

    def assert_model(self, place, requests, local_pages):
        with open(TRACE, encoding="utf-8") as file:
            ids = [json.loads(line)["hash_ids"] for line in itertools.islice(file, requests)]
        result = self.run_program(
            "replay", TRACE, "--requests", requests, "--page-bytes", 4096, "--pool-bytes", "512MiB", "--local-pages", local_pages,
            "--json", "-", place=place, timeout=PATIENCE_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assert_counts(answer, ids, local_pages)
        print(f"{answer['pages_demanded']} pages in {answer['wall_seconds']:.0f} s", flush=True)
        return answer

    def setUp(self):
        super().setUp()
        require_trace(self)

    def test_the_first_requests(self):
        answer = self.assert_model(over("rxe0"), self.REQUESTS, 0)
        self.assertEqual(answer["pages_demanded"], self.PAGES)

    def test_fewer_on_two_devices(self):
        self.assert_model(over("rxe0,rxe1"), self.FEW_REQUESTS, 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
