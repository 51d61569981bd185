"""What the adapter for LMCache counts, in LMCache's status and among its metrics, and what it finds
worth loading. Runs in an environment with LMCache (scripts/test-engines)."""

import unittest

import prometheus_client
from lmcache_test import CLASSES, HALF, L2, PAGE_BYTES, PATIENCE_S, key
from program import Case, wait_until

TOKENS = 256


def series(name, **labels):
    """As LMCache's own endpoint shows it."""
    return prometheus_client.REGISTRY.get_sample_value(f"farpage_engine_{name}", {"engine": "lmcache", **labels}) or 0


class LmcacheFiguresTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.start_node("--page-bytes", "256KiB", pool="128MiB")

    def l2(self, form="plugin", **params):
        l2 = L2(self, form, str(self.node.socket), **{"timeout_ms": 1000 * PATIENCE_S, "store_timeout_ms": 1000 * PATIENCE_S, **params})
        self.assertTrue(wait_until(lambda: l2.connector._connection.client is not None))
        return l2

    def test_figures_are_what_was_done(self):
        names = {"stored": ("pages_total", {"result": "stored"}), "found": ("pages_total", {"result": "found"}),
                 "ready": ("pages_total", {"result": "ready"}), "miss": ("pages_total", {"result": "miss"}),
                 "stored bytes": ("bytes_total", {"direction": "store"}), "loaded bytes": ("bytes_total", {"direction": "load"}),
                 "stores": ("seconds_count", {"operation": "store"}), "lookups": ("seconds_count", {"operation": "lookup"}),
                 "loads": ("seconds_count", {"operation": "load"}), "stalls": ("stalls_total", {"operation": "load"})}
        for form in CLASSES:
            with self.subTest(form=form):
                before = {what: series(name, **labels) for what, (name, labels) in names.items()}
                l2 = self.l2(form)
                keys = [key(number, model=form) for number in range(6)]
                self.assertTrue(l2.store(keys))
                self.assertEqual(sum(l2.lookup([*keys, key(99)])), 6)
                l2.adapter.delete(keys[4:])
                loaded = sum(l2.load(keys)) + sum(l2.load(keys[:2]))
                self.assertEqual(loaded, 6)
                wanted = {"stored": 6, "found": 6, "ready": loaded, "miss": 2, "stored bytes": 6 * PAGE_BYTES, "loaded bytes": loaded * PAGE_BYTES,
                          "stores": 1, "lookups": 1, "loads": 2, "stalls": 0}
                self.assertEqual({what: series(name, **labels) - before[what] for what, (name, labels) in names.items()}, wanted)
                if form == "plugin":
                    status = l2.adapter.report_status()
                    self.assertEqual(status["pages"], {"stored": 6, "found": 6, "ready": loaded, "miss": 2})
                    self.assertEqual(status["why_no_node"], "")
                    self.assertEqual(status["bytes"], {"store": 6 * PAGE_BYTES, "load": loaded * PAGE_BYTES})

    def test_the_status_says_why_there_is_no_node(self):
        l2 = L2(self, "plugin", str(self.folder / "none.sock"), connect_ms=100)
        self.assertTrue(wait_until(lambda: "start one" in l2.adapter.report_status()["why_no_node"]), l2.adapter.report_status())
        l2.connector.close()
        self.assertEqual(l2.connector.why_no_node(), "the adapter is closed")

    def test_losses_have_their_reason_and_are_stalls(self):
        l2 = self.l2(timeout_ms=100)
        keys = [key(number) for number in range(HALF)]
        self.assertTrue(l2.store(keys))
        self.node.kill()
        self.node.wait()
        loads = []

        def is_lost():
            loads.append(l2.load(keys))
            return not any(loads[-1])

        self.assertTrue(wait_until(is_lost))
        figures, client = l2.connector.figures, l2.connector._connection.client.statistics()
        pages = figures.of("pages")
        lost = pages["stalled"] + pages["unreachable"]
        self.assertEqual((pages["ready"], lost), (sum(map(sum, loads)), sum(HALF - sum(each) for each in loads)))
        self.assertEqual((client.ready, client.stalled + client.unreachable), (pages["ready"], lost))
        self.assertEqual(figures.of("stalls")["load"], sum(not all(each) for each in loads))

    def test_time_saved(self):
        l2 = self.l2(chunk_tokens=TOKENS, prefill_tokens_per_s=1000)
        keys = [key(number) for number in range(4)] + [key(number, rank=1) for number in range(4)]
        self.assertTrue(l2.store(keys))
        self.assertEqual(sum(l2.load(keys)), 8)
        took_s = l2.connector.figures.of("seconds")["load"]
        # Of two workers, each chunk once.
        self.assertAlmostEqual(l2.connector.figures.of("saved_seconds")[""], 4 * TOKENS / 1000 - took_s)

    def test_what_is_cheaper_to_compute_is_not_found(self):
        l2 = self.l2(chunk_tokens=TOKENS, prefill_tokens_per_s=1e12, cost_model=True)
        keys = [key(number) for number in range(4)]
        self.assertTrue(l2.store(keys))
        self.assertEqual(l2.lookup(keys), [True] * 4)  # nothing is known yet
        self.assertEqual(l2.load(keys), [True] * 4)
        self.assertEqual([sum(l2.lookup(keys)) for _ in range(16)], [0] * 15 + [4])
        self.assertEqual(l2.connector.figures.of("decisions"), {"load": 1, "recompute": 15, "explore": 1})
        l2.close()
        l2 = self.l2(chunk_tokens=TOKENS, prefill_tokens_per_s=1, cost_model=True)
        self.assertEqual(l2.load(keys), [True] * 4)
        self.assertEqual(l2.lookup(keys), [True] * 4)
        l2.close()
        # How many tokens a key has is not known.
        l2 = self.l2(prefill_tokens_per_s=1e12, cost_model=True)
        self.assertTrue(l2.store(keys))
        self.assertEqual((l2.load(keys), l2.lookup(keys)), ([True] * 4, [True] * 4))

    def test_a_prefix_of_a_million_tokens_is_one_question(self):
        l2 = self.l2()
        self.assertTrue(l2.store([key(number) for number in range(4)]))
        client, asked = l2.connector._connection.client, []
        exists = client.exists
        client.exists = lambda keys, *, timeout_s: asked.append(len(keys)) or exists(keys, timeout_s=timeout_s)
        keys = [key(number) for number in range(1_000_000 // 16)]
        self.assertEqual(sum(l2.lookup(keys)), 4)
        self.assertEqual(asked, [len(keys)])


if __name__ == "__main__":
    unittest.main()
