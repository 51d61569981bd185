"""Which prefixes FarpageConnector leaves to vLLM, as they are cheaper to compute: under vLLM's own
scheduler, in an environment that has vLLM (scripts/test-engines)."""

import itertools
import types
import unittest
from unittest import mock

from truth import assert_tokens
from vllm_connector_steps_test import BLOCKS, FORMS, PROMPTS, ConnectorCase
from vllm_steps import BLOCK_TOKENS, expected

from farpage.engines import connector_scheduler
from farpage.engines.connector_plan import Load

WHOLE = BLOCKS * BLOCK_TOKENS
FAST, SLOW = 1e9, 0.001  # tokens a second: of engines that compute sooner than they load, and later


class CostsTest(ConnectorCase):
    def one_by_one(self, engine, prompts):
        """How many tokens of each vLLM took from the connector."""
        cached = []
        for prompt in prompts:
            tokens, (count,) = engine.run([prompt])
            assert_tokens(tokens, [expected(prompt, ranks=len(engine.workers))])
            cached.append(count)
        engine.settle()
        return cached

    def figures(self, engine, name):
        return engine.connector._gathered.figures.of(name)

    def test_prefixes_that_are_cheaper_to_compute_are_left_and_not_stored_again(self):
        for pages in FORMS:
            with self.subTest(pages=pages):
                self.store(pages=pages)
                engine = self.engine(pages=pages, cost_model=True, prefill_tokens_per_s=FAST)
                # Nothing is known of loads before the first.
                self.assertEqual(self.one_by_one(engine, PROMPTS), [WHOLE, 0, 0])
                self.assertEqual(self.figures(engine, "decisions"), {"load": 1, "recompute": 2})
                self.assertEqual(self.figures(engine, "pages"), {"slower": 2 * BLOCKS})
                self.assertEqual((engine.counts()["ready"], engine.counts()["stored"]), (BLOCKS, 0))

    def test_prefixes_that_are_cheaper_to_load_are_loaded(self):
        for pages in FORMS:
            with self.subTest(pages=pages):
                self.store(pages=pages)
                engine = self.engine(pages=pages, cost_model=True, prefill_tokens_per_s=SLOW)
                self.assertEqual(self.one_by_one(engine, PROMPTS), [WHOLE] * 3)
                self.assertEqual(self.figures(engine, "decisions"), {"load": 3})
                saved_s = self.figures(engine, "saved_seconds")[""]
                self.assertLess(saved_s, 3 * WHOLE / SLOW)
                self.assertGreater(saved_s, 3 * WHOLE / SLOW - 3 * engine.connector._settings.timeout_s)

    def test_it_is_off_unless_it_is_set(self):
        self.store()
        engine = self.engine(prefill_tokens_per_s=FAST)
        self.assertEqual(self.one_by_one(engine, PROMPTS), [WHOLE] * 3)
        self.assertEqual(self.figures(engine, "decisions"), {})

    def test_a_load_of_two_workers_is_one(self):
        self.store(ranks=2)
        engine = self.engine(ranks=2, cost_model=True, prefill_tokens_per_s=SLOW)
        self.assertEqual(self.one_by_one(engine, PROMPTS[:1]), [WHOLE])
        self.assertAlmostEqual(self.figures(engine, "saved_seconds")[""], WHOLE / SLOW, delta=engine.connector._settings.timeout_s)
        engine.connector._scheduler._worth._tokens_per_s = FAST
        self.assertEqual(self.one_by_one(engine, PROMPTS[1:2]), [0])
        self.assertEqual(self.figures(engine, "pages"), {"slower": 2 * BLOCKS})

    def test_a_load_ends_with_its_slowest_worker(self):
        """Which may tell of it steps after the first."""
        side = self.engine(connects=False, prefill_tokens_per_s=1).connector._scheduler
        side.ended((), set(), {"a": Load(3, 0.5)})
        side.ended(["b"], set(), {"b": Load(1, 0.25), "a": Load(3, 4)})
        self.assertEqual(side._figures.of("saved_seconds")[""], BLOCK_TOKENS - 0.25)
        side.ended(["a"], set(), {})
        self.assertEqual(side._figures.of("saved_seconds")[""], 4 * BLOCK_TOKENS - 0.25 - 4)
        self.assertEqual(side._measured, {})

    def test_one_prefix_of_some_is_loaded_to_measure_anew(self):
        self.store(PROMPTS[:1])
        engine = self.engine(cost_model=True, prefill_tokens_per_s=FAST)
        cached = []
        for _ in range(18):
            cached += self.one_by_one(engine, PROMPTS[:1])
            engine.scheduler.reset_prefix_cache()
        self.assertEqual(cached, [WHOLE, *[0] * 15, WHOLE, 0])
        self.assertEqual(self.figures(engine, "decisions"), {"load": 1, "recompute": 16, "explore": 1})

    def test_a_request_that_waits_is_weighed_once(self):
        self.store(PROMPTS[:1])
        engine = self.engine(cost_model=True, blocks=12)
        first = engine.add([5] * 150, tokens=16)
        while not first.output_token_ids:
            engine.step()
        second = engine.add(PROMPTS[0])
        engine.finish([first])
        engine.finish([second])
        self.assertEqual(self.figures(engine, "decisions"), {"load": 1})

    def test_the_prefill_rate_is_measured(self):
        """In a time in which a step takes 3 ms, 2 ms more for each token, and 9 s more
        if it waits for layers."""
        for pages, tokens in itertools.product(FORMS, (1, 4)):
            with self.subTest(pages=pages, tokens=tokens):
                options = {"pages": pages, "salt": f"{pages} {tokens}"}
                self.store(PROMPTS[:1], **options)
                engine, now_s = self.engine(**options), [100.0]
                update = engine.scheduler.update_from_output

                def late(step, output, update=update, now_s=now_s):
                    now_s[0] += 0.003 + 0.002 * step.total_num_scheduled_tokens + 9 * step.has_sync_kv_loads
                    return update(step, output)

                engine.scheduler.update_from_output = late
                clock = types.SimpleNamespace(monotonic=lambda now_s=now_s: now_s[0])
                with mock.patch.object(connector_scheduler, "time", clock):
                    # Of the first a part comes.
                    for prompt in (PROMPTS[0], [1] * 40, [2] * 100, [3] * 20):
                        engine.run([prompt], tokens)
                self.assertAlmostEqual(engine.connector._scheduler._worth.recompute_s(100), 0.2, places=3)


if __name__ == "__main__":
    unittest.main()
