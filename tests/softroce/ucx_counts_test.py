#!/usr/bin/env python3
"""Verdicts over UCX's rc equal those over shared memory; lost packets are sent again soon.

Programs over verbs map nothing of UCX.
"""

import unittest

from ucx_case import DEADLINE, UcxCase, over_rc
from verbs_case import SHM, VerbsCase, over
from verbs_network_test import ENDS, bad_cable, count
from counts import Counts
from program import ucx_mapped


class CountsTest(Counts, UcxCase):
    def test_they_are_those_of_shm_on_one_device_and_between_two(self):
        over_shm = self.counts("--pool-bytes", "64MiB", requests=100, local_pages=100, place=SHM)
        self.assertGreater(over_shm["verdicts"]["ready"], 500)
        node = self.start_patient_node()
        for device in ("rxe0", "rxe2"):
            answer = self.replay("--node", node.address, *DEADLINE, requests=100, place=over_rc(device))
            self.assertEqual({key: answer[key] for key in over_shm}, over_shm)
            self.assertIn(f"rc_verbs/{device}", answer["path"])


class LossTest(Counts, UcxCase):
    """Left to itself, UCX sends again after a second what was lost."""

    SOON_US = 500_000

    def test_what_is_lost_is_sent_again_soon(self):
        node = self.start_patient_node()
        with bad_cable("loss", "1%"):
            answer = self.replay("--node", node.address, *DEADLINE, requests=30, place=over_rc("rxe2"))
            self.assertGreater(sum(count(end, "drops") for end in ENDS), 20)
        self.assertEqual(answer["verdicts"]["recompute_by_reason"]["stalled"], 0)
        self.assertLess(answer["fetch_us"]["p50"], self.SOON_US)


class LoadingTest(VerbsCase):
    def test_a_node_over_verbs_has_nothing_of_ucx(self):
        self.assertEqual(ucx_mapped(self.start_node(place=over("rxe0"))), set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
