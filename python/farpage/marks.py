"""Where steps of reasoning begin in a decoded text, and what they are about: the column `mark` of
access traces."""

NOTHING, BEGINS, EXPLORES, VERIFIES, CONCLUDES = range(5)
# A paragraph is a step. Its first words, in any case, say its purpose; with other words it just
# begins.
MARKERS = {
    EXPLORES: ("wait", "but wait", "alternatively", "hmm", "maybe", "let me try", "let's try", "another way", "what if"),
    VERIFIES: ("check", "verify", "double-check", "let me check", "let me verify", "let me double-check", "let's check", "let's verify", "to check", "to verify"),
    CONCLUDES: ("therefore", "thus", "so the answer", "so, the answer", "the answer is", "the final answer", "**final answer", "in conclusion"),
}
BREAK = "\n\n"


def mark_of(paragraph):
    """The mark of a paragraph that begins so, or None while the words that come next may still
    change it."""
    words = paragraph.lstrip().lower()
    for mark, markers in MARKERS.items():
        if words.startswith(markers):
            return mark
    if any(marker.startswith(words) for markers in MARKERS.values() for marker in markers):
        return None
    return BEGINS


class Marks:
    """Marks tokens as they come. A paragraph's mark is on the first token at which it is known: it
    looks at nothing that comes later."""

    def __init__(self, text_of):
        self.text_of = text_of  # of a list of tokens
        self.last, self.paragraph, self.marked = [], "", False

    def of(self, token):
        # Some tokenizers drop the space before a text's first word.
        text = self.text_of([*self.last, token])[len(self.text_of(self.last)):]
        self.last = [token]
        self.paragraph += text
        if BREAK in self.paragraph:
            self.paragraph, self.marked = self.paragraph.rpartition(BREAK)[2], False
        if self.marked:
            self.paragraph = self.paragraph[-1:]  # half a break, perhaps
            return NOTHING
        mark = mark_of(self.paragraph)
        self.marked = mark is not None
        return mark or NOTHING
