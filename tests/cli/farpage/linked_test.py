"""The contents of both programs: the product has no simulation, no attack and no laboratory."""

import re
import subprocess
import unittest

from program import LAB, PROGRAM

# How the linker mangles a namespace below farpage: its length and its name.
LABORATORY = {space: f"7farpage{len(space)}{space}" for space in (
    "sim", "fault", "chaos", "processes", "analyse", "decode", "kvhl", "live", "paging", "vtime")}


def symbols(program):
    """Of the program itself, or where it is stripped of the debug information beside it."""
    for path in (program, f"{program}.debug"):
        listed = subprocess.run(["nm", "--defined-only", path], capture_output=True, text=True, check=False).stdout
        if listed:
            return [line.split()[-1] for line in listed.splitlines()]
    raise AssertionError(f"neither {program} nor its debug information has symbols")


def of_the_laboratory(program):
    found = set()
    for symbol in symbols(program):
        found.update(space for space, mangled in LABORATORY.items() if re.match(rf"_Z\w*N\w?{mangled}", symbol))
        if re.search(r"7testing|SimCluster|GuardOff", symbol):
            found.add(symbol)
    return found


class LinkedTest(unittest.TestCase):
    def test_the_product_has_nothing_of_the_laboratory(self):
        self.assertIn("main", symbols(PROGRAM))
        self.assertEqual(of_the_laboratory(PROGRAM), set())

    def test_the_laboratory_is_seen_where_it_is(self):
        self.assertEqual(of_the_laboratory(LAB) & set(LABORATORY), set(LABORATORY))


if __name__ == "__main__":
    unittest.main()
