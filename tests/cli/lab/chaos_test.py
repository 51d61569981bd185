"""farpage-lab chaos: its output, and invariants that hold.

.ci/run judges every change by thousands of runs more, with a release.
"""

import json
import os
import subprocess
import unittest

from program import LAB, Case

# Simulations are slow under a sanitizer, and without optimization.
RUNS = 200 if os.environ.get("FARPAGE_SANITIZE") else 500
FINDINGS = ("wrong_bytes", "went_back", "late_landings", "missed_deadlines", "lost_acknowledged_puts", "unfinished", "ended_views", "crashed")
OF_REGISTER = ("register_silent", "epoch_unread")  # a node alone has none


class ChaosTest(Case):
    def chaos(self, *arguments):
        result = subprocess.run([LAB, "chaos", *arguments, "--json", "-"], capture_output=True, text=True, timeout=580, check=False)
        return result, json.loads(result.stdout) if result.stdout else None

    def test_all_kinds_are_caught_and_nothing_is_found(self):
        result, answer = self.chaos("--seeds", str(RUNS), "--jobs", "2")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(answer["runs"], RUNS)
        for finding in FINDINGS:
            self.assertEqual(answer[finding], 0, finding)
        self.assertGreater(answer["faults"], 100 * RUNS)
        for kind, injected in answer["injected"].items():
            self.assertLessEqual(answer["caught"][kind], injected, kind)
            if kind not in OF_REGISTER:
                self.assertGreater(answer["caught"][kind], 0, kind)
        self.assertGreater(answer["fetches_hopeless"], RUNS)
        self.assertGreater(answer["fetches_cancelled"], RUNS)
        self.assertGreater(answer["pages_held"], RUNS)

    def test_nothing_is_found_with_replicas(self):
        result, answer = self.chaos("--seeds", str(RUNS // 5), "--jobs", "2", "--nodes", "3", "--replicas", "2")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual({finding: answer[finding] for finding in FINDINGS}, {finding: 0 for finding in FINDINGS})
        self.assertGreater(answer["pages_ready"], 100 * answer["runs"])
        self.assertGreater(answer["pages_hedged"], 0)
        self.assertGreater(answer["pages_kept"], answer["runs"])
        for kind in OF_REGISTER:
            self.assertGreater(answer["caught"][kind], 0, kind)

    def test_only_the_kinds_that_are_named(self):
        _, answer = self.chaos("--seeds", "20", "--faults", "torn,stopped")
        self.assertEqual({kind for kind, count in answer["injected"].items() if count > 0}, {"torn", "stopped"})

    def test_a_failure_is_told_with_its_shortest_plan(self):
        if "--without" not in subprocess.run([LAB, "chaos", "--help"], capture_output=True, text=True, check=True).stdout:
            return  # a program for users has all rules, always
        result, answer = self.chaos("--seeds", "20", "--until-failure", "--without", "live_word")
        self.assertEqual(result.returncode, 1)
        self.assertGreater(answer["went_back"], 0)
        failure = answer["first_failure"]
        self.assertIn("went_back", failure["what"])
        self.assertIn(failure["seed"], answer["failed_seeds"])
        self.assertLess(len(failure["shortest_plan"]), 20)
        again, same = self.chaos("--seed", str(failure["seed"]), "--seeds", "1", "--without", "live_word")
        self.assertEqual(again.returncode, 1)
        self.assertEqual(same["first_failure"], failure)

    def test_bad_options(self):
        for arguments in (["--faults", "weather"], ["--replicas", "2"], ["--jobs", "0"], ["--seeds", "0"]):
            result, _ = self.chaos(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertTrue(result.stderr.startswith("farpage-lab: "), result.stderr)


if __name__ == "__main__":
    unittest.main()
