"""FarpageConnector's pages in vLLM: of all lengths, and of two connectors in one process. Runs in
an environment with vLLM (scripts/test-engines)."""

import concurrent.futures
import os
import pathlib
import sys
import threading
import unittest
from unittest import mock

from program import Case, wait_until
from truth import assert_tokens

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "connector"))
import tiny_llama  # noqa: E402
from vllm_numbered import FORMS, PAGE_BYTES, PATIENT_MS, Numbered  # noqa: E402
from vllm_steps import BLOCK_TOKENS, HEADS, Engine, expected  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
LENGTHS = (64 * KIB, 68 * KIB, 256 * KIB, 1 * MIB, 8 * MIB)
LAYERS, WHOLE, TOKENS = 2, 2, 3  # WHOLE: whole blocks of the prompt; it generates TOKENS
PROMPT = [place % 900 for place in range(WHOLE * BLOCK_TOKENS + 3)]
FEW = [0, 1, 2, 3]
ROUNDS = 3


def threads():
    """Of this process, by their numbers."""
    return set(os.listdir("/proc/self/task"))


def has_stored(engine):
    engine.step()
    return engine.counts()["stored"] == WHOLE


class ConnectorPagesTest(Case):
    def setUp(self):
        super().setUp()
        self.model = tiny_llama.save_config(self.folder / "model")

    def test_pages_of_all_lengths(self):
        for length in LENGTHS:
            node = self.start_node("--page-bytes", str(length), pool="128MiB", name=str(length))
            for pages in FORMS:
                block_bytes = length * (LAYERS if pages == "layer" else 1)
                with self.subTest(length=length, pages=pages), mock.patch("vllm_steps.HEAD_BYTES", block_bytes // LAYERS // BLOCK_TOKENS // HEADS):
                    self.assert_comes_back(node, pages, length, WHOLE * block_bytes)
            self.end(node)

    def assert_comes_back(self, node, pages, page_bytes, loaded_bytes):
        """Each byte that is loaded decides the tokens."""
        engine = Engine(self.model, layers=LAYERS, blocks=6, node=node.address, pages=pages, timeout_ms=PATIENT_MS, store_timeout_ms=PATIENT_MS)
        self.addCleanup(engine.close)
        self.assertTrue(wait_until(lambda: all(each.client is not None for each in engine.connections)))
        worker, truth = engine.workers[0], expected(PROMPT, TOKENS, layers=LAYERS)
        for cached in (0, WHOLE * BLOCK_TOKENS):
            tokens, from_connector = engine.run([PROMPT], TOKENS)
            assert_tokens(tokens, [truth])
            self.assertEqual(from_connector, [cached])
            engine.settle()
            self.assertTrue(wait_until(lambda: has_stored(engine)), engine.counts())
            self.assertTrue(engine.scheduler.reset_prefix_cache())
            for cache in worker.caches.values():
                cache.zero_()
        side = worker.connector._worker
        self.assertEqual((side._page_bytes, side.figures.of("bytes")["load"]), (page_bytes, loaded_bytes))
        engine.close()

    def test_two_connectors_in_one_process_share_a_node_and_nothing_else(self):
        node = self.start_node("--page-bytes", str(PAGE_BYTES), pool="128MiB")
        other = tiny_llama.save_config(self.folder / "other", layers=2)
        for pages in FORMS:
            with self.subTest(pages=pages):
                first = self.connector(self.model, node, pages)
                self.assertTrue(first.store(FEW))
                before = threads()
                second = self.connector(other, node, pages)
                of_second = threads() - before
                self.assertTrue(of_second)
                self.assertEqual(second.load(FEW), [False] * len(FEW), "wrong bytes: those of another model")
                second.idle()
                self.assert_store_and_load_at_once(first, second)
                self.close_when_loads_begin(second, first)
                self.assertEqual(first.load(FEW), [True] * len(FEW))  # and right bytes
                self.assertTrue(wait_until(lambda: not of_second & threads()), of_second & threads())
                self.assertTrue(first.store([100]))
                self.assertEqual(first.load([100]), [True])
                first.close()

    def connector(self, model, node, pages):
        engine = Numbered(model, node.address, pages=pages)
        self.addCleanup(engine.close)
        return engine

    def assert_store_and_load_at_once(self, *engines):
        """Each on a thread of its own, and prompts that no other has: what one counted, or copied,
        for another would show."""
        barrier = threading.Barrier(len(engines))

        def work(engine, first_number):
            for number in range(first_number, first_number + ROUNDS * len(FEW), len(FEW)):
                numbers = range(number, number + len(FEW))
                barrier.wait()
                self.assertTrue(engine.store(numbers))
                barrier.wait()
                self.assertEqual(engine.load(numbers), [True] * len(FEW))

        with concurrent.futures.ThreadPoolExecutor(len(engines)) as pool:
            for done in [pool.submit(work, engine, 1000 * place) for place, engine in enumerate(engines, 1)]:
                done.result()

    @staticmethod
    def close_when_loads_begin(engine, of_engine):
        start = of_engine.worker.start

        def start_and_close(plan):
            start(plan)
            if plan.loads:
                of_engine.worker.start = start
                engine.close()

        of_engine.worker.start = start_and_close


if __name__ == "__main__":
    unittest.main()
