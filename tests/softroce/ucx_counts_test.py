#!/usr/bin/env python3
"""Verdicts over UCX's rc are those over shared memory, and those that a model knows; and verbs has nothing of UCX."""

import unittest

from verbs_case import SHM, FirstRequests, VerbsCase, over
from counts import Counts
from program import ucx_mapped

DEADLINE = ("--deadline-ms", 10_000)


def over_rc(device):
    return ("--backend", "ucx", "--set", "ucx.transports=rc", "--set", f"ucx.devices={device}:1")


class UcxCase(VerbsCase):
    node_place = client_place = over_rc("rxe0")

    def start_patient_node(self, **options):
        """UCX takes seconds in the machine for a new channel, which a read that is given up costs; so none is given up."""
        return self.start_node("--page-bytes", 4096, "--set", "node.reuse_ms=5000", "--set", "ucx.trusted_clients=true",
                               **options)


class CountsTest(Counts, UcxCase):
    def test_they_are_those_of_shm_on_one_device_and_between_two(self):
        over_shm = self.counts("--pool-bytes", "64MiB", requests=100, local_pages=100, place=SHM)
        self.assertGreater(over_shm["verdicts"]["ready"], 500)
        node = self.start_patient_node()
        for device in ("rxe0", "rxe2"):
            answer = self.replay("--node", node.address, *DEADLINE, requests=100, place=over_rc(device))
            self.assertEqual({key: answer[key] for key in over_shm}, over_shm)
            self.assertIn(f"rc_verbs/{device}", answer["path"])


class LoadingTest(VerbsCase):
    def test_a_node_over_verbs_has_nothing_of_ucx(self):
        self.assertEqual(ucx_mapped(self.start_node(place=over("rxe0"))), set())


class ProductionTest(FirstRequests, UcxCase):
    def test_the_first_requests(self):
        node = self.start_patient_node(pool=self.POOL)
        answer = self.assert_first_requests(self.client_place, "--node", node.address, *DEADLINE)
        self.assertIn("rc_verbs/rxe0", answer["path"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
