"""What FarpageConnector counts, as vLLM's own metrics show it: under vLLM's own scheduler, in an
environment that has vLLM (scripts/test-engines)."""

import functools
import types
import unittest

import prometheus_client
from vllm_connector_steps_test import BLOCKS, FORMS, LAYERS, PROMPTS, ConnectorCase
from vllm_steps import LAYER_BYTES

from farpage.engines import vllm_connector


class Shown:
    """What vLLM shows of its engine's figures."""

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        classes = {kind: functools.partial(kind, registry=self.registry)
                   for kind in (prometheus_client.Gauge, prometheus_client.Counter, prometheus_client.Histogram)}
        config = types.SimpleNamespace(kv_transfer_config=types.SimpleNamespace())
        self.metrics = vllm_connector.FarpageConnector.build_prom_metrics(config, classes, ["engine"], {0: ["0"]})

    def __call__(self, engine):
        for stats in engine.stats:
            self.metrics.observe(stats)

    def of(self, name, **labels):
        return self.registry.get_sample_value(f"vllm:farpage_{name}", {"engine": "0", **labels})


class FiguresTest(ConnectorCase):
    def test_its_figures_are_in_vllms_metrics(self):
        """As vLLM's engine tells its server, which shows them under /metrics."""
        for pages in FORMS:
            with self.subTest(pages=pages):
                shown = Shown()
                self.store(pages=pages)
                engine = self.engine(pages=pages, cost_model=True, prefill_tokens_per_s=0.001)
                for prompt in PROMPTS:
                    engine.run([prompt])
                self.wait_stored(engine, 0)
                engine.run([[7] * 40])
                self.wait_stored(engine, 2)
                shown(engine)
                ready = BLOCKS * len(PROMPTS)
                for name, label, value in (("pages_total", {"result": "ready"}, ready), ("pages_total", {"result": "stored"}, 2), ("pages_total", {"result": "miss"}, None),
                                           ("bytes_total", {"direction": "load"}, ready * LAYERS * LAYER_BYTES),
                                           ("bytes_total", {"direction": "store"}, 2 * LAYERS * LAYER_BYTES), ("stalls_total", {"operation": "load"}, None),
                                           ("decisions_total", {"decision": "load"}, len(PROMPTS)), ("saved_seconds", {}, engine.connector._gathered.figures.of("saved_seconds")[""])):
                    self.assertEqual(shown.of(name, **label), value, (name, label))
                for operation in ("lookup", "load", "store"):
                    self.assertGreater(shown.of("seconds_count", operation=operation), 0)
                self.assertGreater(shown.of("seconds_sum", operation="store"), 0)


if __name__ == "__main__":
    unittest.main()
