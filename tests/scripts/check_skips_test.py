"""scripts/check-skips, on files that ctest itself wrote from a GoogleTest program (SKIP_SAMPLE)."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK_SKIPS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check-skips"


class CheckSkipsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.junit = self.folder / "junit.xml"

    def run_ctest(self, *cases, disabled=False):
        lines = []
        for case in cases:
            lines.append(f'add_test({case} "{os.environ["SKIP_SAMPLE"]}" "--gtest_filter={case}")')
            lines.append(f'set_tests_properties({case} PROPERTIES SKIP_REGULAR_EXPRESSION "\\\\[  SKIPPED \\\\]"')
            lines.append("DISABLED TRUE)" if disabled else ")")
        (self.folder / "CTestTestfile.cmake").write_text("\n".join(lines))
        command = [os.environ["CTEST"], "--test-dir", self.folder, "--output-junit", self.junit]
        return subprocess.run(command, capture_output=True, text=True).stdout

    def check(self):
        return subprocess.run([sys.executable, CHECK_SKIPS, self.junit], capture_output=True, text=True)

    def assert_complains(self, *texts):
        checked = self.check()
        self.assertEqual(checked.returncode, 1, checked)
        for text in texts:
            self.assertIn(text, checked.stderr)

    def test_nothing_skipped(self):
        self.run_ctest("Sample.Runs")
        checked = self.check()
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))

    def test_missing_hardware(self):
        self.assertIn("(Skipped)", self.run_ctest("Sample.Runs", "Sample.Hardware"))
        checked = self.check()
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))

    def test_another_reason(self):
        self.run_ctest("Sample.Whim", "Sample.Hardware")
        self.assert_complains("Sample.Whim was skipped: not today\n")

    def test_no_reason(self):
        self.run_ctest("Sample.Silent")
        self.assert_complains("Sample.Silent was skipped: without a reason\n")

    def test_a_failure_does_not_hide_behind_a_skip(self):
        self.assertIn("***Failed", self.run_ctest("Sample.FailedFirst"))

    def test_disabled(self):
        self.run_ctest("Sample.Runs", disabled=True)
        self.assert_complains("Sample.Runs is disabled")

    def test_files_that_say_nothing(self):
        self.assertEqual(self.check().returncode, 2)
        for text in ("", "<testsuite", "nonsense"):
            self.junit.write_text(text)
            checked = self.check()
            self.assertEqual(checked.returncode, 2)
            self.assertIn("cannot read", checked.stderr)
        self.junit.write_text("<testsuite></testsuite>")
        self.assert_complains("names no test")


if __name__ == "__main__":
    unittest.main()
