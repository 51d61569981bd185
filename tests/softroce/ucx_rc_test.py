#!/usr/bin/env python3
"""UCX over rc: the contract of every backend, and a replay whose counts are those over shared memory."""

import os
import pathlib
import subprocess
import unittest

from verbs_case import SHM, VerbsCase
from counts import Counts

# With one host's devices, UCX 1.13 connects by the link-local address alone.
UCX_ENVIRONMENT = {"UCX_IB_GID_INDEX": "0"}
OVER_RC = ("--backend", "ucx", "--set", "ucx.transports=rc", "--set", "ucx.devices=rxe0:1")
CONTRACT = pathlib.Path(os.environ["FARPAGE"]).parents[1] / "tests" / "transport" / "farpage_test_transport"


class UcxRcTest(Counts, VerbsCase):
    def setUp(self):
        super().setUp()
        os.environ.update(UCX_ENVIRONMENT)

    def test_counts_are_those_of_shm(self):
        over_shm = self.counts("--pool-bytes", "64MiB", requests=100, place=SHM)
        answer = self.replay("--pool-bytes", "64MiB", requests=100, place=OVER_RC)
        self.assertRegex(answer["path"], "rc.*rxe0")
        self.assertGreater(over_shm["verdicts"]["ready"], 500)
        self.assertEqual({key: answer[key] for key in over_shm}, over_shm)

    def test_the_contract_holds(self):
        result = subprocess.run([CONTRACT, "--gtest_filter=Ucx/*", "--gtest_brief=1"], capture_output=True, text=True, check=False,
                                timeout=200, env={**os.environ, "UCX_TLS": "rc", "UCX_NET_DEVICES": "rxe0:1"})
        print(result.stdout, flush=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"\[  PASSED  \] [1-9]\d* tests")


if __name__ == "__main__":
    unittest.main(verbosity=2)
