"""The synthetic trace of a decoder."""

import collections
import pathlib
import tempfile
import unittest

from decoder_trace import CHURN, HEADS, LAYERS, PAGES, SELECTED, write_trace
from farpage.access_trace import Reader


class DecoderTraceTest(unittest.TestCase):
    def test_layers_take_turns_and_most_of_a_selection_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.trace"
            write_trace(path, tokens=20)
            selections = collections.defaultdict(set)
            for access in Reader(path):
                self.assertEqual(access.head // HEADS, access.step % LAYERS)
                selections[access.step // LAYERS, access.head].add(access.page)
        self.assertEqual(len(selections), 21 * LAYERS * HEADS)
        kept = selected = 0
        for (token, head), pages in selections.items():
            self.assertLessEqual(len(pages), SELECTED if token > 0 else PAGES)
            self.assertLessEqual(pages, selections[0, head])
            if token > 1:
                kept += len(pages & selections[token - 1, head])
                selected += len(pages)
        self.assertAlmostEqual(kept / selected, 1 - CHURN, delta=0.05)


if __name__ == "__main__":
    unittest.main()
