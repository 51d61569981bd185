"""vLLM generates on the CPU, LMCache's server holds its KV, and a Farpage node holds what the
server evicted. Runs in an environment with vLLM and LMCache (scripts/test-engines)."""

import dataclasses
import os
import random
import signal
import time
import unittest

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1",
                  HF_HUB_OFFLINE="1", LMCACHE_TRACK_USAGE="false", LMCACHE_DISABLE_BANNER="1")
from lmcache_server import ServerCase  # noqa: E402
from program import wait_until  # noqa: E402
from truth import assert_answer  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402
from vllm.config import KVTransferConfig  # noqa: E402
from vllm_engine import tiny_model  # noqa: E402

BLOCK_TOKENS, CHUNK_TOKENS, PROMPT_TOKENS, NEW_TOKENS = 32, 64, 200, 16
CHUNKS = PROMPT_TOKENS // CHUNK_TOKENS
STORED_TOKENS = CHUNKS * CHUNK_TOKENS
GPU_BLOCKS = 18  # of which two prompts take nearly all
OTHERS = (10, 11, 12)  # prompts that evict the one that a test looks at
DEADLINE_S, PATIENCE_S = 2, 120
SAMPLING = SamplingParams(temperature=0, max_tokens=NEW_TOKENS, logprobs=2, ignore_eos=True, detokenize=False)


def prompt(number):
    chosen = random.Random(number)
    return [chosen.randrange(3, 1000) for _ in range(PROMPT_TOKENS)]


@dataclasses.dataclass
class Answer:
    tokens: list
    logprobs: list  # of the tokens
    cached: int  # tokens of the prompt that were not computed


class Engine:
    def __init__(self, model, server=None):
        """Without a server: vLLM alone."""
        transfer = {} if server is None else {"disable_hybrid_kv_cache_manager": True, "kv_transfer_config": KVTransferConfig(
            kv_connector="LMCacheMPConnector", kv_role="kv_both", kv_load_failure_policy="recompute",
            kv_connector_extra_config={"lmcache.mp.host": "tcp://localhost", "lmcache.mp.port": server.port})}
        self._llm = LLM(model=model, skip_tokenizer_init=True, dtype="float32", enforce_eager=True, block_size=BLOCK_TOKENS, max_model_len=512,
                        max_num_seqs=2, max_num_batched_tokens=512, num_gpu_blocks_override=GPU_BLOCKS, seed=0, **transfer)

    def answer(self, number):
        output = self._llm.generate([{"prompt_token_ids": prompt(number)}], SAMPLING, use_tqdm=False)[0]
        chosen = output.outputs[0]
        logprobs = [found[token].logprob for found, token in zip(chosen.logprobs, chosen.token_ids)]
        return Answer(list(chosen.token_ids), logprobs, output.num_cached_tokens)

    def close(self):
        self._llm.llm_engine.engine_core.shutdown()


class VllmLmcacheTest(ServerCase):
    def setUp(self):
        super().setUp()
        model = tiny_model(self.folder / "model")
        alone = Engine(model)
        # Computed, and of vLLM's own cache.
        self.truths = [(alone.answer(number), alone.answer(number)) for number in range(3)]
        alone.close()
        self.assertEqual([(computed.cached, own.cached) for computed, own in self.truths], [(0, STORED_TOKENS)] * 3)
        self.node = self.start_node("--page-bytes", "1MiB", pool="128MiB", listen="tcp://127.0.0.1:0")
        self.faults = self.folder / "faults"
        self.faults.mkdir()
        adapter = self.adapter(self.node, chunk_tokens=CHUNK_TOKENS, timeout_ms=1000 * DEADLINE_S, faults=str(self.faults))
        self.lmcache = self.server("server", {**adapter, "module_path": "lmcache_faults", "class_name": "FaultyAdapter"}, CHUNK_TOKENS)
        self.engine = Engine(model, self.lmcache)
        self.addCleanup(self.engine.close)

    # vLLM makes no third engine in a process, so that the tests share one.
    def test_all(self):
        for test in (self.what_left_the_gpu_and_l1_comes_back, self.the_node_s_bytes_decide_what_is_generated,
                     self.a_node_that_stops_between_look_up_and_load, self.a_node_that_dies_between_look_up_and_load):
            with self.subTest(test.__name__):
                test()

    def what_left_the_gpu_and_l1_comes_back(self):
        self.assert_answer(0, cached=0)
        self.evict(prompts=1)
        self.assert_answer(0, cached=STORED_TOKENS)
        self.assertIn(f"(0 L1, {CHUNKS} L2)", self.lmcache.log.read_text())

    def the_node_s_bytes_decide_what_is_generated(self):
        """Else equal answers would prove nothing."""
        (self.faults / "invert").touch()
        self.assert_answer(1, cached=0)
        self.evict(prompts=2)
        (self.faults / "invert").unlink()
        answer = self.engine.answer(1)
        self.assertEqual(answer.cached, STORED_TOKENS)
        self.assertGreater(self.distance(answer, self.truths[1][1]), 0.01)

    def a_node_that_stops_between_look_up_and_load(self):
        self.assert_answer(2, cached=0)
        self.evict(prompts=3)
        self.signal(signal.SIGSTOP)
        begun_s = time.monotonic()
        self.assert_answer(2, cached=0)
        self.assertLess(time.monotonic() - begun_s, DEADLINE_S + 20)
        self.assertFalse((self.faults / "signal").exists())
        self.node.send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(lambda: self.comes_back(2), PATIENCE_S))

    def a_node_that_dies_between_look_up_and_load(self):
        self.evict(prompts=3)
        self.signal(signal.SIGKILL)
        self.assert_answer(2, cached=0)
        self.assertEqual(self.node.wait(PATIENCE_S), -signal.SIGKILL)
        self.evict()
        self.assert_answer(2, cached=0)
        self.node = self.start_node("--page-bytes", "1MiB", pool="128MiB", listen=self.node.address)
        self.assertTrue(wait_until(lambda: self.comes_back(2), PATIENCE_S))

    def signal(self, number):
        """Sent to the node between the next look-up and its load."""
        (self.faults / "signal.new").write_text(f"{self.node.pid} {number:d}")
        (self.faults / "signal.new").rename(self.faults / "signal")

    def evict(self, prompts=None):
        """What vLLM's blocks and LMCache's L1 have, once the node has so many and the others."""
        for number in OTHERS:
            self.engine.answer(number)
        if prompts is not None:
            all_stored = CHUNKS * (prompts + len(OTHERS))
            self.assertTrue(wait_until(lambda: self.pages(self.node) == all_stored, PATIENCE_S), self.lmcache.log.read_text())
        self.clear(self.lmcache)

    def comes_back(self, number):
        self.evict()
        answer = self.engine.answer(number)
        self.assert_true(number, answer)
        return answer.cached == STORED_TOKENS

    def assert_answer(self, number, cached):
        answer = self.engine.answer(number)
        self.assertEqual(answer.cached, cached, self.lmcache.log.read_text())
        self.assert_true(number, answer)

    def assert_true(self, number, answer):
        """As vLLM alone computes it."""
        truth = self.truths[number][0 if answer.cached == 0 else 1]
        assert_answer((answer.tokens, answer.logprobs), (truth.tokens, truth.logprobs), 1e-4)

    @staticmethod
    def distance(one, other):
        return max(abs(left - right) for left, right in zip(one.logprobs, other.logprobs))


if __name__ == "__main__":
    unittest.main()
