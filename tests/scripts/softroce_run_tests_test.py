"""tests/softroce/run_tests.py on this host: scripts, and a GoogleTest program (SKIP_SAMPLE)."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = os.environ["SKIP_SAMPLE"]


class RunTestsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.junit = self.folder / "junit.xml"

    def script(self, name, text):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def run_tests(self, *arguments, **environment):
        command = [sys.executable, SOURCE / "tests" / "softroce" / "run_tests.py", "--junit", self.junit, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
        return done.returncode, done.stdout, done.stderr

    def check_skips(self):
        return subprocess.run([SOURCE / "scripts" / "check-skips", self.junit], capture_output=True, text=True).stderr

    def assert_counts(self, output, name, passed, failed, skipped):
        row = next(line.split() for line in output.splitlines() if line.startswith(name + " "))
        self.assertEqual([int(word) for word in row[2:7:2]], [passed, failed, skipped])

    def test_scripts_that_pass(self):
        status, output, _ = self.run_tests(self.script("first_test.sh", "echo one"), self.script("second_test.sh", "echo two >&2"))
        self.assertEqual(status, 0)
        self.assertIn("=== first_test\none\n=== second_test\ntwo\n", output)
        self.assert_counts(output, "second_test", 1, 0, 0)
        self.assertEqual(self.check_skips(), "")

    def test_a_script_that_fails_stops_no_other(self):
        status, output, _ = self.run_tests(self.script("bad.sh", "echo why; exit 3"), self.script("good.sh", "true"))
        self.assertEqual(status, 1)
        self.assertIn("failed: bad: exit status 3: why", output)
        self.assert_counts(output, "good", 1, 0, 0)

    def test_one_that_passes_the_second_time_is_named_as_flaky(self):
        status, output, _ = self.run_tests(self.script("once.sh", "test -e $0.ran || { touch $0.ran; exit 1; }"), self.script("good.sh", "true"))
        self.assertEqual(status, 0)
        self.assertEqual(output.splitlines()[-1], "flaky (softroce): once failed at first, and passed the second time: mend them")
        self.assertEqual(self.check_skips(), "")

    def test_one_that_fails_twice_fails_all(self):
        status, output, _ = self.run_tests(self.script("bad.sh", "echo ran >> $0.ran; exit 1"))
        self.assertEqual(status, 1)
        self.assertNotIn("flaky", output)
        self.assertEqual((self.folder / "bad.sh.ran").read_text(), "ran\n" * 2)

    def test_one_that_crashes_has_no_second_chance(self):
        for name, crash in (("crash.sh", "kill -SEGV $$"), ("child.sh", "sh -c 'kill -SEGV $$'; exit $?")):
            status, output, _ = self.run_tests(self.script(name, f"test -e $0.ran || {{ touch $0.ran; {crash}; }}"))
            self.assertEqual(status, 1)
            self.assertIn(f"failed: {name[:-3]}: it crashed with SIGSEGV", output)

    def test_a_script_that_skips(self):
        status, output, _ = self.run_tests(self.script("some.sh", "echo skipped: not today; echo skipped: hardware: no GPU; echo skipped: traces: none"))
        self.assertEqual(status, 0)
        self.assert_counts(output, "some", 0, 0, 3)
        self.assertEqual(self.check_skips(), "check-skips: some 1 was skipped: not today\n")

    def test_one_that_does_not_end(self):
        status, output, _ = self.run_tests("--limit-s", "0.5", self.script("endless.sh", "sleep 1000 & wait"))
        self.assertEqual(status, 1)
        self.assertIn("failed: endless: it did not end within 0.5 s", output)

    def test_every_case_of_a_program_counts(self):
        status, output, _ = self.run_tests(SAMPLE)
        self.assertEqual(status, 1)
        self.assert_counts(output, "farpage_skip_sample", 1, 1, 3)
        self.assertIn("skipped: farpage_skip_sample.Sample.Whim: not today", output)
        self.assertEqual(self.check_skips(), "check-skips: farpage_skip_sample.Sample.Whim was skipped: not today\n"
                                             "check-skips: farpage_skip_sample.Sample.Silent was skipped: without a reason\n")

    def test_a_program_in_which_nothing_runs(self):
        status, output, _ = self.run_tests(SAMPLE, GTEST_FILTER="Sample.None")
        self.assertEqual(status, 1)
        self.assertIn("failed: farpage_skip_sample: it has no test", output)

    def test_a_program_that_crashes(self):
        crashing = self.folder / "crashing"
        crashing.symlink_to("/bin/false")
        status, output, _ = self.run_tests(crashing)
        self.assertEqual(status, 1)
        self.assertIn("failed: crashing: exit status 1: it said nothing", output)

    def test_the_filter(self):
        tests = [self.script(name, "true") for name in ("one_test.sh", "other_test.sh")]
        _, output, _ = self.run_tests("--filter", "one*", *tests)
        self.assertNotIn("other_test", output)
        status, _, errors = self.run_tests("--filter", "none", *tests)
        self.assertEqual(status, 2)
        self.assertIn("no test is named none; there are one_test, other_test", errors)


if __name__ == "__main__":
    unittest.main()
