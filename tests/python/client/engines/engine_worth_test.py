"""Whether pages are worth loading, and what an adapter counts: in virtual time, without an
engine."""

import random
import unittest

from client_case import farpage  # noqa: F401
from farpage.engines.figures import METRICS, Figures
from farpage.engines.worth import EXPLORE_EVERY, Worth

PAGE_BYTES, PAGE_TOKENS = 2 << 20, 16
TOKENS_PER_S = 10_000.0
MOST_PAGES = 128
ENOUGH = 40  # measurements, after which those before weigh a 70th


class Engine:
    """Requests of random lengths against a node whose latency and speed the test sets; seconds are
    numbers here."""

    def __init__(self, seed, tokens_per_s=TOKENS_PER_S, learns=False):
        self.figures = Figures()
        self.worth = Worth(self.figures, is_on=True, tokens_per_s=0 if learns else tokens_per_s)
        self.random, self.tokens_per_s = random.Random(seed), tokens_per_s
        self.latency_s, self.bytes_per_s = 0.0, 1.0
        self.loads = 0
        self.saved_s = 0.0  # as the test counts it

    def node(self, latency_s, bytes_per_s):
        self.latency_s, self.bytes_per_s = latency_s, bytes_per_s

    def costs_s(self, pages):
        """(to load, to compute)"""
        return self.latency_s + pages * PAGE_BYTES / self.bytes_per_s, pages * PAGE_TOKENS / self.tokens_per_s

    def request(self):
        """What it took, and the least that it could have taken."""
        pages = self.random.randint(1, MOST_PAGES)
        load_s, compute_s = self.costs_s(pages)
        is_loaded = self.worth.is_worth(pages * PAGE_TOKENS, pages * PAGE_BYTES)
        if is_loaded:
            self.loads += 1
            self.saved_s += compute_s - load_s
            self.worth.loaded(pages * PAGE_BYTES, pages * PAGE_TOKENS, load_s)
        return (load_s if is_loaded else compute_s), min(load_s, compute_s)

    def requests(self, count):
        took = [self.request() for _ in range(count)]
        return sum(each for each, _ in took), sum(least for _, least in took)


class WorthTest(unittest.TestCase):
    def test_what_is_not_known_is_loaded(self):
        for worth in (Worth(Figures(), is_on=True, tokens_per_s=1e12), Worth(Figures(), is_on=True)):
            self.assertTrue(worth.is_worth(1, 1 << 30))
        worth = Worth(Figures(), is_on=True)
        worth.loaded(1, 1, 1000.0)
        self.assertTrue(worth.is_worth(1, 1 << 30))  # no prefill rate
        self.assertEqual(worth._figures.of("saved_seconds"), {})

    def test_off_it_loads_whatever_it_costs(self):
        figures = Figures()
        worth = Worth(figures, is_on=False, tokens_per_s=1e12)
        worth.loaded(1, 1, 1000.0)
        self.assertTrue(worth.is_worth(1, 1 << 30))
        self.assertEqual(figures.of("decisions"), {})

    def test_latency_and_speed_are_told_apart(self):
        engine = Engine(1)
        engine.node(0.003, 2e9)
        for pages in (1, 2, 50, 3, 100, 7):
            engine.worth.loaded(pages * PAGE_BYTES, 0, engine.costs_s(pages)[0])
        for pages in (1, 10, 1000):
            self.assertAlmostEqual(engine.worth.load_s(pages * PAGE_BYTES), engine.costs_s(pages)[0], places=6)
        self.assertAlmostEqual(engine.worth.bytes_within(1.003), 2e9, delta=1)
        self.assertEqual(engine.worth.bytes_within(0.002), 0)

    def test_loads_of_one_length(self):
        worth = Worth(Figures(), is_on=True)
        self.assertEqual(worth.bytes_within(0.1), float("inf"))
        for _ in range(3):
            worth.loaded(1000, 0, 0.5)
        self.assertAlmostEqual(worth.load_s(2000), 1.0)
        self.assertAlmostEqual(worth.bytes_within(0.25), 500)

    def test_longer_loads_that_took_less_time_are_no_speed_below_0(self):
        worth = Worth(Figures(), is_on=True)
        for length, seconds in ((1, 1.0), (100, 0.5), (1000, 0.1)):
            worth.loaded(length, 0, seconds)
        self.assertGreater(worth.load_s(1 << 40), 0)
        worth = Worth(Figures(), is_on=True)
        for length, seconds in ((100, 0.01), (1000, 1.0)):  # faster than in proportion
            worth.loaded(length, 0, seconds)
        self.assertGreaterEqual(worth.load_s(0), 0)

    def test_long_prefixes_are_loaded_and_short_ones_computed(self):
        for seed in range(8):
            engine = Engine(seed)
            engine.node(0.05, 4e9)  # a page is computed in 1.6 ms, and loaded in 0.5 ms
            engine.requests(ENOUGH)
            took_s, least_s = engine.requests(1000)
            self.assertLess(took_s, 1.02 * least_s, seed)
            loads = engine.loads
            self.assertTrue(engine.worth.is_worth(100 * PAGE_TOKENS, 100 * PAGE_BYTES))
            decided = [engine.worth.is_worth(PAGE_TOKENS, PAGE_BYTES) for _ in range(EXPLORE_EVERY)]
            self.assertEqual(decided.count(False), EXPLORE_EVERY - 1)
            self.assertGreater(loads, ENOUGH)

    def test_a_node_that_becomes_slow_is_left_alone_and_one_that_becomes_fast_is_used_again(self):
        for seed in range(8):
            engine = Engine(seed)
            engine.node(0.001, 20e9)
            engine.requests(ENOUGH)
            engine.node(0.5, 0.5e9)
            engine.requests(ENOUGH * EXPLORE_EVERY)
            loads = engine.loads
            took_s, least_s = engine.requests(1024)
            # Of what it explores it pays the difference: 1 in 16, at up to 5 times the cost or so.
            self.assertLess(took_s, 1.5 * least_s, seed)
            self.assertEqual(engine.loads - loads, 1024 // EXPLORE_EVERY, seed)
            engine.node(0.001, 20e9)
            engine.requests(ENOUGH * EXPLORE_EVERY)
            took_s, least_s = engine.requests(1024)
            self.assertLess(took_s, 1.01 * least_s, seed)

    def test_the_same_requests_are_decided_the_same(self):
        decided = []
        for _ in range(2):
            engine = Engine(7)
            engine.node(0.05, 2e9)
            engine.requests(1000)
            decided.append((engine.loads, engine.figures.status()))
        self.assertEqual(*decided)

    def test_a_prefill_rate_that_is_learned(self):
        engine = Engine(3, learns=True)
        engine.node(0.05, 4e9)
        for tokens in (100, 2000, 700, 4000):
            # A step has a cost of its own.
            engine.worth.prefilled(tokens, 0.02 + tokens / TOKENS_PER_S)
        self.assertAlmostEqual(engine.worth.recompute_s(500), 500 / TOKENS_PER_S, places=6)
        engine.requests(ENOUGH)
        took_s, least_s = engine.requests(1000)
        self.assertLess(took_s, 1.02 * least_s)

    def test_what_is_left_to_compute_after_hits_does_not_spoil_the_prefill_rate(self):
        for seed in range(8):
            chance, engine = random.Random(seed), Engine(seed, learns=True)
            for prompts, most in ((20, 4000), (400, 16)):
                for _ in range(prompts):
                    tokens = chance.randint(1, most)
                    engine.worth.prefilled(tokens, 0.02 + tokens / TOKENS_PER_S + chance.gauss(0, 0.002))
            self.assertAlmostEqual(engine.worth.recompute_s(1000) * TOKENS_PER_S / 1000, 1, delta=0.1, msg=str(seed))

    def test_a_node_that_failed_for_a_while_is_known_as_well_by_its_first_load(self):
        engine = Engine(1)
        engine.node(0.003, 20e9)
        engine.requests(ENOUGH)
        for _ in range(8):
            engine.worth.loaded(0, 0, 0.2)
        self.assertGreater(engine.worth.load_s(PAGE_BYTES), 0.05)
        engine.worth.loaded(50 * PAGE_BYTES, 50 * PAGE_TOKENS, engine.costs_s(50)[0])
        self.assertLess(engine.worth.load_s(PAGE_BYTES), engine.costs_s(1)[0])

    def test_its_decisions_and_the_time_saved_are_counted(self):
        engine = Engine(5)
        engine.node(0.05, 2e9)
        engine.requests(500)
        decisions = engine.figures.of("decisions")
        self.assertEqual(sum(decisions.values()), 500)
        self.assertEqual(decisions["load"] + decisions["explore"], engine.loads)
        self.assertEqual(decisions["explore"], (decisions["explore"] + decisions["recompute"]) // EXPLORE_EVERY)
        self.assertGreater(decisions["recompute"], 0)
        self.assertAlmostEqual(engine.figures.of("saved_seconds")[""], engine.saved_s)


class FiguresTest(unittest.TestCase):
    def test_each_is_published_as_it_comes(self):
        published = []
        figures = Figures(lambda name, metric, label, value: published.append((name, metric.kind, label, value)))
        figures.add("pages", "ready", 3)
        figures.add("pages", "ready", 0)  # nothing
        figures.add("pages", "ready", 2)
        figures.add("seconds", "load", 0.25)
        figures.add("seconds", "load", 0.5)
        figures.add("saved_seconds", value=2.0)
        figures.add("saved_seconds", value=-3.0)
        self.assertEqual(published, [("pages", "counter", "ready", 3), ("pages", "counter", "ready", 2), ("seconds", "histogram", "load", 0.25),
                                     ("seconds", "histogram", "load", 0.5), ("saved_seconds", "gauge", "", 2.0), ("saved_seconds", "gauge", "", -1.0)])
        self.assertEqual(figures.of("pages"), {"ready": 5})
        self.assertEqual(figures.of("seconds"), {"load": 0.75})
        self.assertEqual(set(figures.status()), set(METRICS))


if __name__ == "__main__":
    unittest.main()
