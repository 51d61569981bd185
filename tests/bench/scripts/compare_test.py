"""How two sides are compared, judged and drawn."""

import contextlib
import unittest
import xml.etree.ElementTree

import compare
from measure import Failure, wait_until_quiet
from ratio_chart import ratio_chart


def case(ours, peer, bound=1.0, at_most=False, note=None):
    """A case whose sides give these figures one after another."""
    ours, peer = iter(ours), iter(peer)

    @contextlib.contextmanager
    def sides():
        yield compare.Sides(lambda: next(ours), lambda: next(peer), note)

    return compare.Case("key", "a name", "a peer", "GB/s", bound, sides, at_most)


def quiet():
    return 0.0


class CompareTest(unittest.TestCase):
    def test_medians_and_their_ratio(self):
        result = compare.compare(case([1, 30, 2, 3, 4], [2, 2, 1, 50, 2]), 5, quiet)
        self.assertEqual((result["ours"], result["theirs"], result["ratio"], result["holds"]), (3, 2, 1.5, True))
        self.assertEqual(len(result["runs"]), 5)
        self.assertEqual(result["runs"][3], {"load": 0.0, "ours": 3, "peer": 50})

    def test_the_sides_take_turns(self):
        turns = []

        @contextlib.contextmanager
        def sides():
            yield compare.Sides(lambda: turns.append("ours") or 1, lambda: turns.append("peer") or 1)

        compare.compare(compare.Case("k", "n", "p", "u", 1, sides), 2, lambda: turns.append("quiet?") or 0.0)
        self.assertEqual(turns, ["quiet?", "ours", "peer"] * 2)

    def test_a_bound_that_is_missed_or_not_judged_is_a_failure(self):
        def status(*results):
            return compare.exit_status([{"bound": bound, "holds": holds} for bound, holds in results])
        self.assertEqual(status((1, True), (None, None)), 0)
        self.assertEqual(status((1, True), (1, False)), 1)
        self.assertEqual(status((1, None)), 1)
        self.assertEqual(compare.exit_status([{"bound": 1, "failure": "no device"}]), 1)
        self.assertEqual(status(), 1)

    def test_bounds(self):
        for ratio, bound, at_most, holds in ((1.0, 1.0, False, True), (0.99, 1.0, False, False), (1.1, 1.1, True, True),
                                             (1.2, 1.1, True, False), (0.5, None, False, None)):
            self.assertIs(compare.judge(ratio, bound, at_most, [0.0]), holds)

    def test_beside_other_load_nothing_is_judged(self):
        loads = iter([0.0, 0.73, 0.01])
        result = compare.compare(case([2] * 3, [1] * 3), 3, lambda: next(loads))
        self.assertIsNone(result["holds"])
        self.assertIn("not judged: something else took up to 73% of the cores before 1 of 3 rounds", compare.row(result))

    def test_a_side_that_fails(self):
        def fail():
            raise Failure("redis-server is | gone")

        @contextlib.contextmanager
        def sides():
            yield compare.Sides(fail, fail)

        result = compare.compare(compare.Case("k", "n", "p", "u", 1, sides), 2, quiet)
        self.assertNotIn("holds", result)
        self.assertEqual(compare.row(result), "| n | - | p | - | ≥ 1 | not measured: redis-server is / gone |")

    def test_rows(self):
        held = compare.compare(case([3.0], [2.0]), 1, quiet)
        self.assertEqual(compare.row(held), "| a name | 3.00 GB/s | 2.00 GB/s (a peer) | 1.50 | ≥ 1 | yes |")
        missed = compare.compare(case([300.0], [200.0], bound=1.1, at_most=True), 1, quiet)
        self.assertEqual(compare.row(missed), "| a name | 300 GB/s | 200 GB/s (a peer) | 1.50 | ≤ 1.1 | **no** |")
        shown = compare.compare(case([3.0], [2.0], bound=None, note=lambda: "it rained"), 1, quiet)
        self.assertTrue(compare.row(shown).endswith("| none | reported; it rained |"))


class QuietTest(unittest.TestCase):
    def test_the_first_low_load(self):
        loads = iter([0.9, 0.5, 0.02, 0.7])
        self.assertEqual(wait_until_quiet(60, lambda: next(loads)), 0.02)

    def test_patience_ends(self):
        self.assertEqual(wait_until_quiet(0, lambda: 0.9), 0.9)


class ChartTest(unittest.TestCase):
    def parse(self, *results):
        svg = ratio_chart("Farpage <beside> its peers", [compare.bar(result) for result in results])
        self.assertNotIn("href", svg)
        root = xml.etree.ElementTree.fromstring(svg)
        name = lambda element: element.tag.rpartition("}")[2]
        texts = [element.text for element in root.iter() if name(element) == "text"]
        bars = [element for element in root.iter() if name(element) == "rect"][1:]
        return texts, bars, [element for element in root.iter() if element.get("class") == "bound"]

    def test_bars_say_what_they_are(self):
        held = compare.compare(case([3.0], [2.0]), 1, quiet)
        missed = compare.compare(case([1.5], [1.0], bound=3.5), 1, quiet)
        noisy = compare.compare(case([1.0], [1.0], bound=1.1, at_most=True), 1, lambda: 0.5)
        shown = compare.compare(case([1.0], [2.0], bound=None), 1, quiet)
        texts, bars, bounds = self.parse(held, missed, noisy, shown)
        for text in ("Farpage <beside> its peers", "a name", "3.00 GB/s; a peer: 2.00 GB/s", "1.50 (≥ 1)",
                     "1.50 (≥ 3.5) missed", "1.00 (≤ 1.1) not judged", "0.50"):
            self.assertIn(text, texts)
        self.assertEqual((len(bars), len(bounds)), (4, 3))
        self.assertEqual(len({bar.get("fill") for bar in bars}), 3)

    def test_lengths_are_in_proportion(self):
        _, bars, bounds = self.parse(compare.compare(case([3.0], [2.0], bound=3.0), 1, quiet),
                                     compare.compare(case([3.0], [1.0], bound=1.5), 1, quiet))
        short, long = (float(bar.get("width")) for bar in bars)
        self.assertAlmostEqual(long / short, 2, places=2)
        left = float(bars[0].get("x"))
        self.assertAlmostEqual(float(bounds[0].get("x1")), left + long, delta=0.2)
        self.assertAlmostEqual(float(bounds[1].get("x1")), left + short, delta=0.2)

    def test_nothing_measured(self):
        self.assertEqual(self.parse()[1], [])


if __name__ == "__main__":
    unittest.main()
