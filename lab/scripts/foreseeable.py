#!/usr/bin/env python3
"""Misses of a decode that other heads' misses foretell, as the table of docs/prefetch.md.

The script follows a memory that evicts the least recently used page. It matches blocks across heads
by the step in which their pages were first accessed, and by their place among the pages that their
head first accessed in it. Pages of the prompt have no such block: those of the first step, and
those that heads came to later, each by itself.
"""

import argparse
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from farpage.access_trace import Reader, TraceError  # noqa: E402

BEFORE_STEPS = 3
WITHIN_STEPS = 10
MOST_BEFORE, MOST_NOW = 3, 4  # heads that are told apart; these: or more
KINDS = {"before": "another head missed its block one to three steps before", "together": "otherwise, another head missed it in the same step",
         "alone": "nobody else had", "prompt": "a page of the prompt, whose block is not known in other heads"}


class Misses:
    """Misses of pages that were accessed before: how many there were of each kind.

    Their blocks have pages in other heads: of those that were not near, it counts how many came.
    """

    def __init__(self, budget_pages):
        self.budget_pages = budget_pages
        self.near = collections.OrderedDict()  # used last: last
        self.block = {}  # of a page: its step and its place in it; None: of the first step
        self.pages = collections.defaultdict(list)  # by block
        # By block: a step for each head that missed it.
        self.missed_in = collections.defaultdict(list)
        # By page: the misses that made it a candidate, and until when.
        self.awaited = collections.defaultdict(list)
        self.kinds = collections.Counter()
        # By how many heads missed a block before, and how many miss it now.
        self.candidates, self.came = collections.Counter(), collections.Counter()
        self.first_step = None

    def step(self, step, accesses):
        if self.first_step is None:
            self.first_step = step
        new_in_head = collections.Counter()
        missed = []
        for page, head in accesses:
            for cell, until in self.awaited.pop(page, ()):
                self.came[cell] += step <= until
            if page in self.near:
                self.near.move_to_end(page)
                continue
            if page in self.block:
                missed.append(page)
            elif step == self.first_step:
                self.block[page] = None
            else:
                block = self.block[page] = step, new_in_head[head]
                self.pages[block].append(page)
                new_in_head[head] += 1
            self.near[page] = True
            if len(self.near) > self.budget_pages:
                self.near.popitem(last=False)
        self.count(step, missed)

    def count(self, step, missed):
        together = collections.Counter(self.block[page] for page in missed if len(self.pages[self.block[page]]) > 1)
        before = {block: sum(when >= step - BEFORE_STEPS for when in self.missed_in[block]) for block in together}
        for page in missed:
            block = self.block[page]
            self.kinds["prompt" if block not in together else "before" if before[block] else "together" if together[block] > 1 else "alone"] += 1
        for block, now in together.items():
            self.missed_in[block] += [step] * now
            cell = min(before[block], MOST_BEFORE), min(now, MOST_NOW)
            for page in self.pages[block]:
                if page not in self.near:
                    self.candidates[cell] += 1
                    self.awaited[page].append((cell, step + WITHIN_STEPS))

    def worth_naming(self):
        """Those cells of which more than half came, or nothing."""
        return [cell for cell in self.candidates if 2 * self.came[cell] > self.candidates[cell]]


def misses_of(path, budget_pages):
    misses = Misses(budget_pages)
    step, accesses = None, []
    for access in Reader(path):
        if access.step != step:
            if accesses:
                misses.step(step, accesses)
            step, accesses = access.step, []
        accesses.append((access.page, access.head))
    misses.step(step, accesses)
    return misses


def print_tables(misses):
    total = misses.kinds.total()
    if total == 0:
        print("Nothing was missed that was accessed before.")
        return
    print(f"\n| of {total} misses | share |\n|---|---|")
    for kind, words in KINDS.items():
        print(f"| {words} | {misses.kinds[kind] / total:.2f} |")
    print("\n| heads that missed the block in the step | in the three before | pages of others, not near | demanded within ten steps | share | of the misses |\n"
          "|---|---|---|---|---|---|")
    for before, now in sorted(misses.candidates, key=lambda cell: (-cell[1], -cell[0])):
        named, came = misses.candidates[before, now], misses.came[before, now]
        print(f"| {now}{' or more' if now == MOST_NOW else ''} | {before}{' or more' if before == MOST_BEFORE else ''} | "
              f"{named} | {came} | {came / named:.2f} | {came / total:.3f} |")
    worth = misses.worth_naming()
    print(f"\nWhere more than half of them came, {sum(misses.came[cell] for cell in worth) / total:.2f} of the misses can be named.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="an access trace of a decode")
    parser.add_argument("--budget", type=int, default=768, metavar="PAGES")
    options = parser.parse_args()
    print_tables(misses_of(options.trace, options.budget))


if __name__ == "__main__":
    try:
        main()
    except (OSError, TraceError) as error:
        sys.exit(f"foreseeable: {error}")
