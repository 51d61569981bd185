#!/usr/bin/env python3
"""Verdicts over UCX's rc are those over shared memory, and those that a model knows; and verbs has nothing of UCX."""

import unittest

from verbs_case import SHM, FirstRequests, VerbsCase, over
from counts import Counts
from program import ucx_mapped


def over_rc(device):
    return ("--backend", "ucx", "--set", "ucx.transports=rc", "--set", f"ucx.devices={device}:1")


class CountsTest(Counts, VerbsCase):
    client_place = over_rc("rxe2")

    def test_they_are_those_of_shm_on_one_device(self):
        over_shm, over_ucx = (self.counts("--pool-bytes", "64MiB", requests=100, local_pages=100, place=place)
                              for place in (SHM, over_rc("rxe0")))
        self.assertGreater(over_shm["verdicts"]["ready"], 500)
        self.assertEqual(over_ucx, over_shm)
        self.assert_nothing_left()

    def test_and_between_two(self):
        node = self.start_node("--set", "ucx.trusted_clients=true", place=over_rc("rxe0"))
        over_shm = self.counts("--pool-bytes", "64MiB", requests=100, place=SHM)
        answer = self.replay("--node", node.address, requests=100)
        self.assertEqual({key: answer[key] for key in over_shm}, over_shm)
        self.assertIn("rc_verbs/rxe2", answer["path"])


class LoadingTest(VerbsCase):
    def test_a_node_over_verbs_has_nothing_of_ucx(self):
        self.assertEqual(ucx_mapped(self.start_node(place=over("rxe0"))), set())


class ProductionTest(FirstRequests, VerbsCase):
    def test_the_first_requests(self):
        answer = self.assert_first_requests(over_rc("rxe0"))
        self.assertIn("rc_verbs/rxe0", answer["path"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
