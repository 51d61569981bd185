"""What FarpageTier counts, as vLLM's own metrics and the client's show it; and what it leaves when
vLLM resets its cache, or ends, with jobs under way."""

import itertools
import os
import pathlib
import re
import types
import unittest
import urllib.request

import prometheus_client
from program import wait_until
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadPromMetrics
from vllm_manager import BLOCK_TOKENS, CHUNK_BYTES, CHUNKS, ManagerCase, key

PAGE_BYTES = 2 * CHUNK_BYTES  # a chunk of both ranks
PREFIX = "vllm:kv_offload_farpage_"


def listening():
    """The TCP ports that this process listens on."""
    links = [os.readlink(link) for link in pathlib.Path("/proc/self/fd").iterdir() if link.is_symlink()]
    sockets = {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}
    rows = [line.split() for line in pathlib.Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in sockets}


class Shown:
    """What vLLM shows of an engine's figures."""

    def __init__(self, case, engine):
        self.engine, self.registry = engine, prometheus_client.CollectorRegistry()
        classes = {kind: self.registered(kind) for kind in (prometheus_client.Gauge, prometheus_client.Counter, prometheus_client.Histogram)}
        config = types.SimpleNamespace(kv_transfer_config=types.SimpleNamespace(kv_connector_extra_config=engine.extra, kv_connector="OffloadingConnector"))
        self.metrics = OffloadPromMetrics(config, classes, ["engine"], {0: ["0"]})

    def registered(self, kind):
        return lambda *arguments, **more: kind(*arguments, **more, registry=self.registry)

    def __call__(self, name, **labels):
        with self.engine.lock:
            stats = self.engine.manager.get_stats()
        if stats is not None:
            self.metrics.observe(stats.data)
        return self.registry.get_sample_value(PREFIX + name, {"engine": "0", **labels}) or 0


class VllmFiguresTest(ManagerCase):
    def test_figures_are_what_was_done(self):
        self.stored().close()
        before = listening()
        engine = self.engine(metrics_listen="127.0.0.1:0", prefill_tokens_per_s=1000)
        (port,) = listening() - before
        shown = Shown(self, engine)
        self.assertEqual(engine.settled_prefix(range(4), engine.request()), 4)
        # 24 were stored.
        self.assertEqual(engine.settled_prefix(range(20, 30), engine.request()), 4)
        engine.store([100, 101, 102])
        self.assertTrue(engine.idle())
        for result, pages in (("found", 8), ("ready", 8), ("stored", 3), ("miss", 0), ("not stored", 0), ("dropped", 0)):
            self.assertEqual(shown("pages_total", result=result), pages, result)
        self.assertEqual(shown("bytes_total", direction="load"), 8 * PAGE_BYTES)
        self.assertEqual(shown("bytes_total", direction="store"), 3 * PAGE_BYTES)
        self.assertEqual({operation: shown("seconds_count", operation=operation) for operation in ("lookup", "load", "store")},
                         {"lookup": 2, "load": 2, "store": 1})
        self.assertEqual(shown("stalls_total", operation="load"), 0)
        loads_s = shown("seconds_sum", operation="load")
        self.assertGreater(loads_s, 0)
        self.assertAlmostEqual(shown("saved_seconds"), 8 * BLOCK_TOKENS / 1000 - loads_s)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:  # the client's own
            text = answer.read().decode()
        self.assertEqual(re.findall(r"^farpage_client_ready_pages_total (\d+)", text, re.MULTILINE), ["8"])
        self.assertEqual(re.findall(r"^farpage_client_ready_bytes_total (\d+)", text, re.MULTILINE), [str(8 * PAGE_BYTES)])

    def test_losses_have_their_reason_and_are_stalls(self):
        engine = self.stored(timeout_ms=100)
        shown = Shown(self, engine)
        before = {name: shown(name, **label) for name, label in (("pages_total", {"result": "miss"}), ("stalls_total", {"operation": "lookup"}))}
        # A lookup that finds nothing is no loss.
        self.assertEqual(engine.load([500, 501]), [False, False])
        self.assertEqual(shown("pages_total", result="miss") - before["pages_total"], 0)
        context = engine.request()
        self.assertIsNone(engine.prefix(range(3), context))
        engine.step()
        self.assertTrue(wait_until(lambda: engine.tier._lookups.take() or not engine.tier._lookups.is_waiting))
        # Behind its back.
        engine.tier._connection.client.remove(engine.tier._space.keys([key(2)])).wait()
        self.assertEqual(engine.settled_prefix(range(3), context), 2)
        self.assertEqual(shown("pages_total", result="miss") - before["pages_total"], 1)
        self.assertEqual(shown("stalls_total", operation="load"), 0)
        self.stop_node()

        numbers = itertools.count(1000)

        def stalls():
            engine.load([next(numbers)])
            return shown("stalls_total", operation="lookup") > before["stalls_total"]

        self.assertTrue(wait_until(stalls))

    def test_decisions(self):
        self.stored().close()
        engine = self.engine(cost_model=True, prefill_tokens_per_s=1e9)
        shown = Shown(self, engine)
        for number in range(18):
            engine.settled_prefix([number], engine.request())
        self.assertEqual({decision: shown("decisions_total", decision=decision) for decision in ("load", "recompute", "explore")},
                         {"load": 1, "recompute": 16, "explore": 1})

    def test_nobody_asks_for_the_figures(self):
        engine = self.engine()
        for _ in range(100_000):
            engine.tier.figures.add("seconds", "load", 0.5)
        stats = engine.tier.get_stats()
        self.assertLessEqual(len(stats.data["data"][PREFIX + "seconds"]["load",]), 1 << 14)
        self.assertEqual(engine.tier.figures.of("seconds")["load"], 50_000)
        self.assertIsNone(engine.tier.get_stats())


class EndsTest(ManagerCase):
    """With jobs under way, of a node that was stopped: stores that have no answer yet."""

    def storing(self):
        engine = self.engine(store_timeout_ms=1000)
        self.stop_node()
        engine.store(range(4))
        self.assertFalse(engine.tier._transfers.is_idle)
        return engine

    def test_drain_ends_each_job_in_time(self):
        engine = self.storing()
        with engine.lock:
            engine.tier.drain_jobs()
            self.assertEqual([(job.success, list(job.successful_keys or ())) for job in engine.tier.get_finished_jobs()], [(False, [])])
            engine.manager._jobs.clear()  # which were vLLM's to end
        self.assertTrue(engine.tier._transfers.is_idle)

    def test_reset_waits_until_nothing_touches_the_cpu_tier(self):
        engine = self.storing()
        with engine.lock:
            engine.manager.reset_cache()
        self.assertEqual(engine.manager._jobs, {})
        self.assertTrue(engine.tier._transfers.is_idle)

    def test_shutdown_leaves_no_export_file_or_thread(self):
        self.engine().close()  # what starts with the first
        before = set(os.listdir("/proc/self/task")), set(os.listdir("/dev/shm")), len(os.listdir("/proc/self/fd"))
        engine = self.storing()
        name = next(name for name in os.listdir("/dev/shm") if f"farpage-{os.getpid()}-" in name)
        self.assertIn(name, pathlib.Path("/proc/self/maps").read_text())
        engine.close()
        # Which an export would keep.
        self.assertNotIn(name, pathlib.Path("/proc/self/maps").read_text())

        def is_gone():
            return set(os.listdir("/proc/self/task")) <= before[0] and len(os.listdir("/proc/self/fd")) <= before[2]

        self.assertTrue(wait_until(is_gone), (os.listdir("/proc/self/task"), os.listdir("/proc/self/fd")))
        self.assertNotIn(name, os.listdir("/dev/shm"))


if __name__ == "__main__":
    unittest.main()
