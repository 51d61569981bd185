#!/usr/bin/env python3
"""The beginning of a production trace over UCX's rc: verdicts are those that a model knows."""

import unittest

from ucx_case import DEADLINE, UcxCase
from verbs_case import FirstRequests


class ProductionTest(FirstRequests, UcxCase):
    def test_the_first_requests(self):
        node = self.start_patient_node(pool=self.POOL)
        answer = self.assert_first_requests(self.client_place, "--node", node.address, *DEADLINE)
        self.assertIn("rc_verbs/rxe0", answer["path"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
