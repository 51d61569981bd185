"""Where steps of reasoning begin in a decoded text."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from farpage.marks import BEGINS, CONCLUDES, EXPLORES, NOTHING, VERIFIES, Marks  # noqa: E402


def marked(*texts):
    """The texts of the tokens that are marked, with their marks."""
    marks = Marks(lambda tokens: "".join(texts[token] for token in tokens))
    found = [(text, marks.of(token)) for token, text in enumerate(texts)]
    return [(text, mark) for text, mark in found if mark != NOTHING]


class MarksTest(unittest.TestCase):
    def test_a_paragraph_begins_a_step(self):
        self.assertEqual(marked("Okay", ",", " so", ".\n\n", "Now", " we", ".\n", "And", "\n", "\n", "on"), [("Okay", BEGINS), ("Now", BEGINS), ("on", BEGINS)])

    def test_its_first_words_say_what_it_does(self):
        self.assertEqual(marked("\n\n", "Wait", ",", "\n\n", "Altern", "atively", "\n\n", "Let", " me", " verify", " it", "\n\n", " Therefore", " x"),
                         [("Wait", EXPLORES), ("atively", EXPLORES), (" verify", VERIFIES), (" Therefore", CONCLUDES)])

    def test_a_mark_waits_until_the_words_are_certain(self):
        self.assertEqual(marked("So", " the", " answer", " is", "\n\n", "So", " the", " other", " answer"), [(" answer", CONCLUDES), (" other", BEGINS)])

    def test_words_elsewhere_mark_nothing(self):
        self.assertEqual(marked("We", " wait", ".", " Therefore", "\n", "Wait"), [("We", BEGINS)])

    def test_a_token_may_hold_the_break_and_what_follows(self):
        self.assertEqual(marked("One", ".\n\nWait", " for", ".\n\n\n\n", "Two"), [("One", BEGINS), (".\n\nWait", EXPLORES), ("Two", BEGINS)])

    def test_a_tokenizer_that_drops_the_first_space(self):
        words = ["We", " see", "\n\n", "So", " the", " answer"]
        marks = Marks(lambda tokens: "".join(words[token] for token in tokens).removeprefix(" "))
        self.assertEqual([marks.of(token) for token in range(len(words))], [BEGINS, 0, 0, 0, 0, CONCLUDES])


if __name__ == "__main__":
    unittest.main(verbosity=2)
