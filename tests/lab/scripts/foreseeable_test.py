"""Which misses of a decode could be foretold, on a trace whose answers were worked out by hand."""

import contextlib
import io
import pathlib
import tempfile
import unittest

from farpage.access_trace import Writer
from foreseeable import misses_of, print_tables

# Three heads and a memory of four pages, which evicts the least recently used. Pages are named by
# block and head.
STEPS = {0: ["p0"], 1: ["a0", "a1", "a2"], 2: ["b0", "b1", "b2"], 3: ["c0"],
         4: ["a0"],  # alone; a1 and a2 are not near
         6: ["a1"],  # two steps after a0; a2 is not near
         20: ["a2"],  # long after both, and too late for whoever named it
         21: ["p0"],
         22: ["b0", "b1"],  # together; b2 is not near
         23: ["b2", "b2"],  # after both; the second finds it near
         24: ["c0"]}  # of which no other head has one


def misses(steps=STEPS, budget_pages=4):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a.trace"
        with Writer(path, "by hand", synthetic=True, heads=3) as trace:
            for step, pages in steps.items():
                for page in pages:
                    trace.add(step, page, head=int(page[1]))
        return misses_of(path, budget_pages)


class ForeseeableTest(unittest.TestCase):
    def test_misses_are_told_apart_by_what_others_missed_before(self):
        self.assertEqual(misses().kinds, {"alone": 2, "before": 2, "together": 2, "prompt": 2})

    def test_candidates_are_pages_of_the_block_that_are_not_near_and_come_within_ten_steps(self):
        # By heads that missed the block in the three steps before, and now.
        self.assertEqual(misses().candidates, {(0, 1): 2, (1, 1): 1, (0, 2): 1})
        self.assertEqual(+misses().came, {(0, 1): 1, (0, 2): 1})

    def test_worth_naming_is_what_comes_more_often_than_not(self):
        self.assertEqual(misses().worth_naming(), [(0, 2)])
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print_tables(misses())
        self.assertIn("| of 8 misses |", text.getvalue())
        self.assertIn("| nobody else had | 0.25 |", text.getvalue())
        self.assertIn("| 2 | 0 | 1 | 1 | 1.00 | 0.125 |", text.getvalue())

    def test_where_there_is_room_for_all_nothing_is_missed(self):
        self.assertEqual(misses(budget_pages=8).kinds, {})

    def test_what_was_used_last_stays(self):
        self.assertEqual(misses({0: ["p0"], 1: ["a0"], 2: ["p0"], 3: ["b0"], 4: ["p0"]}, budget_pages=2).kinds, {})


if __name__ == "__main__":
    unittest.main()
