"""The help of every command of both programs fits a screen."""

import math
import subprocess
import unittest

from program import LAB, PROGRAM

LINES_MAX = 50
COLUMNS = 100


def help_of(*command):
    return subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout


def subcommands(text):
    _, _, listed = text.partition("\nSubcommands:\n")
    return [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]


def every_command(*command):
    yield command
    for name in subcommands(help_of(*command)):
        yield from every_command(*command, name)


class HelpTest(unittest.TestCase):
    def test_it_fits_a_screen(self):
        seen = set()
        for program in (PROGRAM, LAB):
            for command in every_command(program):
                seen.add(command[1:])
                lines = sum(max(1, math.ceil(len(line) / COLUMNS)) for line in help_of(*command).splitlines())
                with self.subTest(" ".join(command[1:]) or program):
                    self.assertLessEqual(lines, LINES_MAX)
        for known in (("node",), ("bench", "fetch"), ("replay",), ("policies",), ("bench", "scale")):
            self.assertIn(known, seen)


if __name__ == "__main__":
    unittest.main()
