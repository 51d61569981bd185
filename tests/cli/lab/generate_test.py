"""farpage-lab generate: its traces, truths and parameter sets, and the values that it refuses."""

import collections
import json
import re
import subprocess
import sys
import tomllib
import unittest

from program import LAB, SOURCE, Case

sys.path.insert(0, str(SOURCE / "python"))
from farpage.access_trace import Reader  # noqa: E402

CONFIGS = SOURCE / "configs" / "decode"


class GenerateTest(Case):
    def generate(self, *arguments, name="a"):
        trace, truth = self.folder / f"{name}.trace", self.folder / f"{name}.csv"
        result = self.run_program("generate", *arguments, "--output", trace, "--truth", truth)
        self.assertEqual(result.returncode, 0, result.stderr)
        return trace, truth

    def refused(self, expected, *arguments, trace="a.trace", truth="a.csv", code=2):
        result = self.run_program("generate", *arguments, "--output", trace, "--truth", truth)
        self.assert_fails(result, code, expected)

    def test_every_access_can_be_read_and_every_page_has_a_truth(self):
        trace, truth = self.generate("reasoning", "--tokens", "300")
        reader = Reader(trace)
        self.assertTrue(reader.synthetic)
        self.assertEqual((reader.heads, reader.columns), (16, ["mass", "entropy", "margin", "mark"]))
        pages, steps, marks = set(), collections.Counter(), {}
        for access in reader:
            pages.add(access.page)
            steps[access.step] += 1
            marks[access.step] = access.values["mark"]
            self.assertTrue(0 < access.values["mass"] < 1)
            self.assertGreater(access.values["margin"], 0)
        self.assertEqual(steps, {step: 24 * 16 for step in range(300)})
        lines = truth.read_text().splitlines()
        self.assertEqual(lines[0], "page,label,segment,phase")
        rows = [line.split(",") for line in lines[1:]]
        self.assertEqual([row[0] for row in rows], [str(page) for page in range(len(pages))])
        self.assertEqual(pages, set(range(len(pages))))
        for _, label, segment, phase in rows:
            self.assertIn(label, ("milestone", "other"))
            self.assertEqual(phase in ("explore", "verify", "conclude"), segment.isdigit())
        self.assertGreater(sum(mark > 0 for mark in marks.values()), 0)

    def test_the_same_seed_gives_the_same_bytes(self):
        one = self.generate("reasoning", "--tokens", "200", "--seed", "5", name="one")
        two = self.generate("reasoning", "--set", "tokens=200", "--set", "seed=5", name="two")
        other = self.generate("reasoning", "--tokens", "200", "--seed", "6", name="other")
        self.assertEqual([path.read_bytes() for path in one], [path.read_bytes() for path in two])
        self.assertNotEqual(one[0].read_bytes(), other[0].read_bytes())

    def test_informativeness_changes_features_and_nothing_else(self):
        def read(value):
            trace, truth = self.generate("reasoning", "--tokens", "200", "--set", f"informativeness={value}")
            accesses = list(Reader(trace))
            return ([(each.step, each.page, each.head, each.values["mass"]) for each in accesses], truth.read_text(),
                    [each.values["entropy"] for each in accesses])

        none, some = read(0), read(0.9)
        self.assertEqual(none[:2], some[:2])
        self.assertNotEqual(none[2], some[2])

    def test_the_files_are_the_built_in_sets(self):
        known = re.findall(r"^  (\w+)=(\S+): ", subprocess.run([LAB, "generate", "--list"], capture_output=True, text=True, check=True).stdout, re.MULTILINE)
        self.assertGreater(len(known), 30)
        reasoning = tomllib.loads((CONFIGS / "reasoning.toml").read_text())
        self.assertEqual(reasoning, {key: float(value) for key, value in known})
        self.assertEqual(list(tomllib.loads((CONFIGS / "normal.toml").read_text())), [key for key, _ in known])
        for name in ("reasoning", "normal"):
            for length in ("256", "0"):  # 0: also what draws the length is the same
                built_in = self.generate(name, "--tokens", length, name="built-in")
                of_file = self.generate(CONFIGS / f"{name}.toml", "--tokens", length, name="of-file")
                self.assertEqual([path.read_bytes() for path in built_in], [path.read_bytes() for path in of_file])

    def test_sets_that_are_held_back_differ_in_several_parameters(self):
        paths = sorted((CONFIGS / "held-back").iterdir())
        self.assertEqual(len(paths), 3)
        reasoning = tomllib.loads((CONFIGS / "reasoning.toml").read_text())
        for path in paths:
            changed = tomllib.loads(path.read_text())
            self.assertGreaterEqual(sum(value != reasoning[key] for key, value in changed.items()), 5, path)
            self.generate(path, "--tokens", "150")

    def test_its_labels_are_those_of_analyse(self):
        trace, truth = self.generate("reasoning", "--tokens", "800", "--set", "milestones=1")
        result = self.run_program("analyse", trace, "--format", "access", "--labels", truth, "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertTrue(answer["synthetic"])
        self.assertIn(answer["h3_milestones"]["answer"], ("yes", "no"))

    def test_a_replay_needs_no_truth(self):
        trace, truth = self.generate("normal", "--tokens", "100")
        truth.unlink()
        result = self.run_program("policies", trace, "--format", "access", "--policy", "lru,h2o", "--budget", "512")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("synthetic", result.stdout)

    def test_what_is_wrong_in_a_file_is_named_with_its_line(self):
        path = self.folder / "own.toml"
        for line, expected in (("pheonix = 0.1", "own.toml:2: unknown key 'pheonix'; did you mean 'phoenix'?"),
                               ("phoenix = 2", "own.toml:2: phoenix is a number from 0 to 1, and not 2"),
                               ("phoenix = 'x'", "own.toml:2: phoenix is not a number"),
                               ("tokens = 1.5", "own.toml:2: tokens is a whole number"),
                               ("phoenix =", "own.toml:2:"),
                               ("explore = 0.9", "own.toml: explore, verify and conclude")):
            path.write_text(f"heads = 2\n{line}\n")
            self.refused(expected, path)
        self.refused("none.toml", self.folder / "none.toml")

    def test_what_is_wrong_on_the_command_line_is_named(self):
        self.refused("did you mean 'reasoning'?", "reasonning")
        self.refused("--set chrun_stable=0.1: unknown key 'chrun_stable'; did you mean 'churn_stable'?", "normal", "--set", "chrun_stable=0.1")
        self.refused("write it as key=value", "normal", "--set", "churn_stable")
        self.refused("tokens is a whole number from 0", "normal", "--tokens", "99999999999")
        self.refused("--tokens", "normal", "--tokens", "-1")
        self.refused("--truth needs a file of its own", "normal", truth="a.trace")
        self.refused("--truth needs a file of its own", "normal", truth="-")
        result = self.run_program("generate", "normal", "--output", "a.trace")
        self.assert_fails(result, 2, "--truth")

    def test_where_it_cannot_write_is_named(self):
        self.refused("none/a.trace", "normal", trace="none/a.trace", code=1)
        self.refused("none/a.csv", "normal", truth="none/a.csv", code=1)
        self.assertFalse((self.folder / "a.trace").exists(), "nothing is made whose truth cannot be kept")


if __name__ == "__main__":
    unittest.main()
