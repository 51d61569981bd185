#!/usr/bin/env python3
"""Writes a synthetic access trace of a decoder with sparse attention.

Its layers take turns, a step each, and every head demands the pages that it selects. Nothing in it
was measured: from one token to the next, each selected page is drawn anew with the probability
CHURN, and stays selected otherwise.
"""

import argparse
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from farpage.access_trace import Writer  # noqa: E402

LAYERS, HEADS, PAGES, SELECTED, TOKENS, CHURN = 16, 4, 256, 24, 200, 0.2


def write_trace(path, *, tokens=TOKENS, seed=1):
    """The first token makes all pages of each head.

    Each of the `tokens` after it demands up to SELECTED of each head's pages.
    """
    draw = random.Random(seed)
    selections = [draw.sample(range(PAGES), SELECTED) for _ in range(LAYERS * HEADS)]
    with Writer(path, "a decoder, layer by layer", synthetic=True, layers=LAYERS, heads=HEADS) as trace:
        for step in range(LAYERS * (tokens + 1)):
            layer = step % LAYERS
            for head in range(layer * HEADS, (layer + 1) * HEADS):
                if step < LAYERS:
                    demanded = range(PAGES)
                else:
                    selections[head] = [draw.randrange(PAGES) if draw.random() < CHURN else page for page in selections[head]]
                    demanded = sorted(set(selections[head]))
                for page in demanded:
                    trace.add(step, (head, page), head=head)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", help="where to write it")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write_trace(options.path, seed=options.seed)


if __name__ == "__main__":
    main()
