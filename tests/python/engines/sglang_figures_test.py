"""What FarpageStorage counts, for SGLang and among its metrics; what it finds worth loading; and
how it asks for long prefixes. Under SGLang's own controller (scripts/test-engines)."""

import collections
import sys
import types
import unittest
from unittest import mock

import numpy
import torch
from sglang_engine import PAGE_TOKENS, PAGES, PoolHitPolicy, PoolName, PoolTransfer, StorageCase, tokens

import farpage
from farpage.engines import sglang
from farpage.engines.figures import _made, publisher

MILLION = 15_625  # pages
SIDE = {PoolName.INDEXER: PoolHitPolicy.ALL_PAGES, PoolName.SWA: PoolHitPolicy.TRAILING_PAGES}


class Registry:
    """In place of prometheus_client, which this environment lacks."""

    def __init__(self):
        self.values = collections.Counter()
        kinds = {"Counter": "inc", "Gauge": "set", "Histogram": "observe"}
        self.module = types.SimpleNamespace(**{kind: self.maker(method) for kind, method in kinds.items()})

    def maker(self, method):
        def make(name, documentation, labels, buckets=()):
            def series(*values):
                assert len(values) == len(labels) and documentation
                record = self.record_last if method == "set" else self.record
                return types.SimpleNamespace(**{method: lambda value: record((name, *values), value)})

            return types.SimpleNamespace(labels=series)

        return make

    def record(self, name, value):
        self.values[name] += value

    def record_last(self, name, value):
        self.values[name] = value


class SglangFiguresTest(StorageCase):
    def test_figures_are_what_was_done(self):
        registry = Registry()
        with mock.patch.dict(sys.modules, {"prometheus_client": registry.module}), mock.patch.dict(_made, clear=True):
            engine = self.engine()
            storage = engine.storage
            storage.figures = sglang.Figures(publisher("sglang"))
            storage._worth = sglang.Worth(storage.figures, is_on=False, tokens_per_s=1000)
            storage._config.enable_storage_metrics = True
            self.assertEqual(engine.store(tokens(1000, PAGES))[2], PAGES)
            self.assertEqual(engine.load(tokens(1000, PAGES), lambda: self.drop(engine, 7, 1))[:2], (PAGES, 7))
            page_bytes = sum(storage._pools["kv"].part_bytes)
            wanted = {("pages", "stored"): PAGES, ("pages", "found"): PAGES, ("pages", "ready"): PAGES - 1, ("pages", "miss"): 1,
                      ("bytes", "store"): PAGES * page_bytes, ("bytes", "load"): (PAGES - 1) * page_bytes}
            shown = {(name[len("farpage_engine_"):], label): value for (name, engine_name, *rest), value in registry.values.items() for label in rest
                     if engine_name == "sglang"}
            self.assertEqual({name: value for name, value in shown.items() if name[0] in ("pages", "bytes")}, wanted)
            figures = storage.figures
            self.assertEqual({operation: shown["seconds", operation] for operation in ("store", "lookup", "load")}, figures.of("seconds"))
            saved_s = (PAGES - 1) * PAGE_TOKENS / 1000 - figures.of("seconds")["load"]
            self.assertAlmostEqual(registry.values["farpage_engine_saved_seconds", "sglang"], saved_s)
            stats = storage.get_stats()
            self.assertEqual((stats.prefetch_pgs, stats.backup_pgs), ([PAGES - 1], [PAGES]))

    def test_losses_have_their_reason_and_are_stalls(self):
        engine, _, _ = self.stored(timeout_ms=100)
        self.node.kill()
        self.node.wait()
        self.await_unreachable(engine)
        names, places = engine.hashes(tokens(1000, PAGES)), torch.arange(PAGES * PAGE_TOKENS)
        before = engine.storage.figures.of("pages")
        self.assertEqual(engine.storage.batch_get_v1(names, places), [False] * PAGES)
        lost = engine.storage.figures.of("pages") - before
        self.assertEqual(lost["stalled"] + lost["unreachable"], PAGES, lost)
        self.assertEqual(engine.storage.figures.of("stalls")["load"], 1)
        self.assertEqual(engine.storage.batch_exists(names), 0)
        self.assertEqual(engine.storage.figures.of("stalls")["lookup"], 1)

    # ---- Worth

    def test_what_is_cheaper_to_compute_is_not_there(self):
        for side in (None, SIDE):
            with self.subTest(side=side):
                engine, _, _ = self.stored(side=side, cost_model=True, prefill_tokens_per_s=1e12, salt=str(side))
                # Nothing is known yet.
                self.assertEqual(engine.load(tokens(1000, PAGES))[:2], (PAGES, PAGES))
                self.assertEqual([engine.load(tokens(1000, PAGES))[0] for _ in range(16)], [0] * 15 + [PAGES])
                self.assertEqual(engine.storage.figures.of("decisions"), {"load": 1, "recompute": 15, "explore": 1})
                engine.close()

    def test_what_is_cheaper_to_load_is_loaded(self):
        engine, _, _ = self.stored(cost_model=True, prefill_tokens_per_s=1e-3)
        for _ in range(3):
            self.assertEqual(engine.load(tokens(1000, PAGES))[:2], (PAGES, PAGES))
        self.assertEqual(engine.storage.figures.of("decisions"), {"load": 3})

    # ---- Long prefixes

    def asked(self, engine, there):
        """How many keys each question has, of a node that has `there(number)` of them."""
        asked = []

        def exists(keys, *, timeout_s):
            first = sum(asked)
            asked.append(len(keys))
            verdicts = numpy.zeros(len(keys), farpage.ticket.VERDICT)
            verdicts["verdict"] = [there(first + number) for number in range(len(keys))]
            return types.SimpleNamespace(wait=lambda: verdicts)

        engine.storage._client.exists = exists
        return asked

    def test_a_prefix_of_a_million_tokens(self):
        names = [f"{number:064x}" for number in range(MILLION)]
        for layout, parts in (("page_first", 2), ("layer_first", 8)):
            for side in (None, SIDE):
                with self.subTest(layout=layout, side=side):
                    engine = self.engine(layout=layout, side=side)
                    pools = 3 if side else 1
                    at_once = sglang.KEYS_AT_ONCE // (pools * parts)  # pages
                    transfers = [PoolTransfer(name, keys=names[-2:], hit_policy=policy) for name, policy in SIDE.items()]

                    def length(engine=engine, side=side, transfers=transfers):
                        storage = engine.storage
                        return storage.batch_exists_v2(names, transfers).kv_hit_pages if side else storage.batch_exists(names)

                    asked = self.asked(engine, lambda number: True)
                    self.assertEqual(length(), MILLION)
                    self.assertEqual((len(asked), sum(asked)), (-(-MILLION // at_once), MILLION * pools * parts))
                    self.assertLessEqual(max(asked), sglang.KEYS_AT_ONCE)
                    asked = self.asked(engine, lambda number: False)  # a prefix that ends at once
                    self.assertEqual(length(), 0)
                    self.assertEqual(len(asked), 1)
                    engine.close()


if __name__ == "__main__":
    unittest.main()
