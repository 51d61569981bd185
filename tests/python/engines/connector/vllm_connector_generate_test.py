"""vLLM generates on the CPU with FarpageConnector: what comes from a node is what vLLM had itself.
In an environment that has vLLM (scripts/test-engines)."""

import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from vllm_engine import (  # noqa: E402
    ENVIRONMENT,
    PROMPT_CHUNKS,
    Engine,
    chunk_bytes,
    connected,
    prompt,
    tiny_model,
    why_not_at_length,
)

os.environ.update(ENVIRONMENT)
import numpy  # noqa: E402
from program import Case, wait_until  # noqa: E402
from truth import assert_answer  # noqa: E402
from vllm.distributed.kv_transfer import get_kv_transfer_group  # noqa: E402

import farpage  # noqa: E402

CACHED_TOKENS = PROMPT_CHUNKS * 32
NEAR = 1e-3  # between logprobs, where other parts of a prompt were computed together
PATIENT_MS = 60_000


class ConnectorGeneratesCase:
    """For a Case that says in `pages` what a page holds."""

    @classmethod
    def setUpClass(cls):
        if why_not := why_not_at_length():
            print(f"skipped: {why_not}", flush=True)
            raise unittest.SkipTest(why_not)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.name = f"{folder.name}/node"
        cls.model = tiny_model(pathlib.Path(folder.name) / "model")
        cls.engine = Engine(cls.model, transfer=connected(node=f"{cls.name}.sock", pages=cls.pages, timeout_ms=PATIENT_MS, store_timeout_ms=PATIENT_MS))
        cls.addClassCleanup(cls.engine.close)
        cls.worker = get_kv_transfer_group()._worker

    def setUp(self):
        super().setUp()
        self.node = self.start_node("--page-bytes", chunk_bytes(self.model), name=self.name, pool="32MiB")
        self.ours, self.schedulers = self.worker.connection, self.engine.connector._scheduler._connection
        for connection in (self.ours, self.schedulers):
            self.assertTrue(wait_until(lambda connection=connection: connection.client is not None), connection.why_not)
        keys = self.worker.shard.keys([b"none"])[0]
        page = numpy.ones((len(keys), 16), numpy.uint8)
        self.assertTrue(wait_until(lambda: not self.ours.client.put(keys, page, timeout_s=5).wait()["code"].any()))
        self.assertTrue(wait_until(lambda: self.finds(keys)))

    def finds(self, keys):
        return (self.schedulers.client.exists(keys, timeout_s=5).wait()["verdict"] == farpage.Verdict.READY).all()

    def generate(self, *numbers):
        return self.engine.generate([prompt(number) for number in numbers])

    def evicted(self, number):
        """The answer while vLLM has the prompt's blocks, which it then has no more."""
        computed, local = self.generate(number, number)
        self.assertEqual((computed.cached, local.cached), (0, CACHED_TOKENS))
        self.engine.settle()
        self.generate(number + 100, number + 200, number + 300)
        self.engine.settle()
        return local

    def assert_near(self, answer, wanted):
        assert_answer((answer.tokens, answer.logprobs), (wanted.tokens, wanted.logprobs), NEAR)

    def test_a_prefix_from_the_node_gives_the_answer_of_a_local_one(self):
        local = self.evicted(1)
        loaded, = self.generate(1)
        self.assertEqual(loaded.cached, CACHED_TOKENS)
        self.assert_near(loaded, local)

    def test_other_bytes_at_the_node_give_another_answer(self):
        """So that its bytes are what vLLM computes with."""
        with mock.patch.object(self.worker._cache, "read", lambda numbers, memory, rows: memory.__setitem__(rows, 0)):
            local = self.evicted(2)
        spoilt, = self.generate(2)
        self.assertEqual(spoilt.cached, CACHED_TOKENS)
        self.assertNotEqual(spoilt.logprobs, local.logprobs)
        with self.assertRaises(AssertionError):
            self.assert_near(spoilt, local)

    def test_without_the_node_all_is_computed(self):
        local = self.evicted(3)
        self.node.kill()
        self.node.wait()
        # Its memory is read for as long as the lease lasts.
        self.assertTrue(wait_until(lambda: not self.finds(self.worker.shard.keys([b"none"])[0])))
        computed, = self.generate(3)
        self.assertEqual(computed.cached, 0)
        self.assert_near(computed, local)


class BlocksTest(ConnectorGeneratesCase, Case):
    pages = "block"


class LayersTest(ConnectorGeneratesCase, Case):
    pages = "layer"


if __name__ == "__main__":
    unittest.main()
