"""A prefix of a million tokens, of which nodes hold a part, under vLLM's own scheduler with
FarpageConnector. In an environment that has vLLM (scripts/test-engines)."""

import os
import time
import unittest
from unittest import mock

import numpy
from program import Case, wait_until
from tiny_llama import save_config
from vllm.v1.core.sched.scheduler import RequestStatus
from vllm_numbered import PATIENT_MS
from vllm_steps import BLOCK_TOKENS, HEADS, Engine

TOKENS = 1_000_000
HEAD_BYTES = 2
HELD = 50_000  # blocks
ASKED = 1 << 16  # pages, of all workers: docs/engines.md
STEP_CPU_S = 2  # at most of the scheduler's thread, in a step: 0.04 in a quiet hour
CALLED = ("on_new_request", "get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta", "update_connector_output")


class CpuOfSteps:
    """What the connector takes of the scheduler's thread, step by step."""

    def __init__(self, engine):
        self.steps_s, self._engine = [0.0], engine
        for name in CALLED:
            setattr(engine.connector, name, self._timed(getattr(engine.connector, name)))

    def _timed(self, call):
        def timed(*arguments):
            begun_s = time.thread_time()
            result = call(*arguments)
            self.steps_s[-1] += time.thread_time() - begun_s
            return result
        return timed

    def step(self):
        self._engine.step()
        self.steps_s.append(0.0)


class ConnectorPrefixTest(Case):
    @mock.patch.dict(os.environ, VLLM_ALLOW_LONG_MAX_MODEL_LEN="1")
    @mock.patch("vllm_steps.HEAD_BYTES", HEAD_BYTES)
    def test_a_prefix_of_a_million_tokens(self):
        """Two workers have two pages of each block: the last ones of those held are not asked
        for."""
        node = self.start_node("--page-bytes", "1KiB", pool="256MiB")
        model = save_config(self.folder / "model")
        for ranks, found in ((1, HELD), (2, ASKED // 2)):
            with self.subTest(ranks=ranks):
                self.assert_loads(node, model, ranks, found)

    def assert_loads(self, node, model, ranks, found):
        engine = Engine(model, layers=1, ranks=ranks, blocks=TOKENS // BLOCK_TOKENS + 8, engine={"max_model_len": TOKENS + 8},
                        node=node.address, timeout_ms=PATIENT_MS, store_timeout_ms=PATIENT_MS)
        self.addCleanup(engine.close)
        self.assertTrue(wait_until(lambda: all(each.client is not None for each in engine.connections)))
        request = engine.request([place % 900 for place in range(TOKENS)])
        stats = request.prefill_stats
        held = [self.hold(engine, worker, request) for worker in engine.workers]
        cpu, client = CpuOfSteps(engine), engine.connector._scheduler._connection.client
        with mock.patch.object(client, "exists", wraps=client.exists) as exists:
            engine.scheduler.add_request(request)
            # It then computes the rest.
            self.assertTrue(wait_until(lambda: cpu.step() or request.status == RequestStatus.RUNNING))
        self.assertEqual(exists.call_count, 1)
        self.assertEqual((stats.num_external_cached_tokens, engine.invalid), (found * BLOCK_TOKENS, set()))
        blocks = engine.scheduler.kv_cache_manager.get_block_ids(request.request_id)[0][:found]
        for worker, content in zip(engine.workers, held):
            loaded = worker.caches["layer.0"][blocks].numpy().view(numpy.uint8).reshape(content[:found].shape)
            self.assertTrue((loaded == content[:found]).all(), "wrong bytes")
        self.assertLess(max(cpu.steps_s), STEP_CPU_S)
        engine.close()

    @staticmethod
    def hold(engine, worker, request):
        """The bytes of the request's first blocks in a worker, which the node then has."""
        side = worker.connector._worker
        keys = side.shard.keys(engine.connector._scheduler._names(request, 0, HELD))[:, 0]
        content = numpy.random.default_rng(worker.rank).integers(0, 256, (HELD, BLOCK_TOKENS * HEADS * HEAD_BYTES), numpy.uint8)
        assert not side.connection.client.put(keys, content, timeout_s=60).wait()["code"].any()
        return content


if __name__ == "__main__":
    unittest.main()
