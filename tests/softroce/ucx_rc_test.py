#!/usr/bin/env python3
"""UCX over rc: the contract of every backend."""

import os
import pathlib
import subprocess
import unittest

OVER_RC = {"UCX_TLS": "rc", "UCX_NET_DEVICES": "rxe0:1"}
CONTRACT = pathlib.Path(os.environ["FARPAGE"]).parents[1] / "tests" / "transport" / "farpage_test_transport"


class UcxRcTest(unittest.TestCase):
    def test_the_contract_holds(self):
        result = subprocess.run([CONTRACT, "--gtest_filter=Ucx/*", "--gtest_brief=1"], capture_output=True, text=True, check=False,
                                timeout=200, env={**os.environ, **OVER_RC})
        print(result.stdout, flush=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"\[  PASSED  \] [1-9]\d* tests")


if __name__ == "__main__":
    unittest.main(verbosity=2)
