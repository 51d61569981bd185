"""vLLM's engine that exits with loads under way. In an environment that has vLLM
(scripts/test-engines)."""

import pathlib
import unittest

from program import wait_until
from vllm_engine import chunk_bytes
from vllm_program import CACHED_TOKENS, ProgramCase, setUpModule  # noqa: F401

EXIT_S = 60


class ExitTest(ProgramCase):
    def test_an_exit_with_loads_under_way_ends(self):
        node = self.start_node("--page-bytes", chunk_bytes(self.model), listen="tcp://127.0.0.1:0", pool="128MiB")
        engine = self.start("exits", node.address, processes=False)
        engine.line("ready")
        self.assertTrue(wait_until(lambda: engine.generate(next(self.others)) and self.status(node)["puts"] > 0))
        engine.generate(1)
        self.assertTrue(wait_until(lambda: self.after_others(engine, 1)["cached"] == CACHED_TOKENS))
        engine.generate(*(next(self.others) for _ in range(3)))
        engine.ask("exit_in_a_load", [1], node.pid)
        self.assertEqual(engine.process.wait(EXIT_S), 0)
        self.assertEqual(list(pathlib.Path("/dev/shm").glob(f"farpage-{engine.process.pid}-*")), [])


if __name__ == "__main__":
    unittest.main()
