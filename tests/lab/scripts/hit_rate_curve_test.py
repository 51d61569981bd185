"""The picture of hit rate against budget."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from hit_rate_curve import curves, hit_rate_chart

ROWS = [{"policy": policy, "budget_pages": str(pages), "hit_rate": str(rate)}
        for policy, points in {"a<b": [(200, 0.25), (100, 0.125)], "c": [(100, 0.25), (200, 0.375)]}.items() for pages, rate in points]
SVG = "{http://www.w3.org/2000/svg}"


class HitRateCurveTest(unittest.TestCase):
    def test_each_policy_has_a_line_by_budget(self):
        self.assertEqual(curves(ROWS), {"a<b": [(100, 0.125), (200, 0.25)], "c": [(100, 0.25), (200, 0.375)]})
        picture = xml.etree.ElementTree.fromstring(hit_rate_chart("a & b", curves(ROWS)))
        lines = [[tuple(map(float, place.split(","))) for place in line.get("points").split()] for line in picture.iter(SVG + "polyline")]
        (c_begin, c_end), (a_begin, a_end) = lines  # the higher one first
        self.assertLess(c_begin[0], c_end[0])
        self.assertEqual((a_begin[0], a_end[0]), (c_begin[0], c_end[0]))
        self.assertEqual(a_end[1], c_begin[1])  # of one height: 0.25
        self.assertAlmostEqual(a_begin[1] - a_end[1], c_begin[1] - c_end[1], delta=0.11)
        words = [text.text for text in picture.iter(SVG + "text")]
        for each in ("a & b", "a<b", "c", "100", "200", "0.40"):
            self.assertIn(each, words)

    def test_without_runs_there_is_no_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(__file__).resolve().parents[3] / "lab/scripts/hit_rate_curve.py"
            result = subprocess.run([sys.executable, script, f"{folder}/a.svg"], input="policy,budget_pages,hit_rate\n", capture_output=True, text=True)
            self.assertEqual(result.returncode, 2)
            self.assertIn("farpage-lab policies", result.stderr)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


if __name__ == "__main__":
    unittest.main()
