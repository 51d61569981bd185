"""`lmcache bench l2`, which stores, looks up, loads and compares, with both forms of the adapter.
Runs in an environment with LMCache (scripts/test-engines)."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from lmcache_test import CLASSES, PYTHON, spec
from program import Case


class BenchTest(Case):
    def start(self, name, listen=None):
        return self.start_node("--page-bytes", "256KiB", pool="128MiB", listen=listen, name=name)

    def test_lmcache_bench_l2(self):
        nodes = self.start("shm"), self.start("tcp", "tcp://127.0.0.1:0")
        for form in CLASSES:
            for node in nodes:
                with self.subTest(form=form, node=node.address):
                    self.bench(spec(form, node.address, timeout_ms=20_000, store_timeout_ms=20_000))

    def test_lmcache_bench_l2_behind_its_fault_injector(self):
        """Which drops the third key of each load, and nothing else."""
        node = self.start("node")
        for form in CLASSES:
            with self.subTest(form=form):
                inner = spec(form, node.address, timeout_ms=20_000, store_timeout_ms=20_000)
                self.bench({"type": "fault_inject", "gap_indices": [2], "inner": inner}, loaded=30)

    def bench(self, adapter, loaded=32):
        command = [str(pathlib.Path(sys.executable).parent / "lmcache"), "bench", "l2", "--no-skip-verify", "--num-keys", "16", "--data-size-kb",
                   "256", "--rounds", "2", "--in-flight", "2", "--lookup-max-hit-rate", "0.5", "--l2-adapter", json.dumps(adapter)]
        environment = {**self.environment, "PYTHONPATH": f"{PYTHON}:{os.environ.get('PYTHONPATH', '')}"}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("All 32 keys data verified OK", ended.stdout)
        for what, count in (("success_keys", 32), ("found", 16), ("loaded", loaded)):
            self.assertEqual(re.findall(rf"{what}=(\d+)/", ended.stdout), [str(count)] * 3, ended.stdout)


if __name__ == "__main__":
    unittest.main()
