"""scripts/test-engines runs no test a second time that found wrong bytes, tokens or verdicts."""

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ENGINES = SOURCE / "tests/python/engines"
sys.path.insert(0, str(ENGINES))
import truth  # noqa: E402

SCRIPT = importlib.machinery.SourceFileLoader("test_engines", str(SOURCE / "scripts/test-engines"))
test_engines = importlib.util.module_from_spec(importlib.util.spec_from_loader("test_engines", SCRIPT))
SCRIPT.exec_module(test_engines)
FAILS = {"assert_bytes": (False, "page 7"), "assert_tokens": ([1, 2], [1, 3]), "assert_answer": (([1], [0.5]), ([1], [0.6]), 0.01),
         "assert_none_of": ({1, 2}, {2, 3}, "load")}
PASSES = {"assert_bytes": (True, "page 7"), "assert_tokens": ([1, 2], [1, 2]), "assert_answer": (([1], [0.5]), ([1], [0.505]), 0.01),
          "assert_none_of": ({1, 2}, {3}, "load")}
FILE = """
import sys, unittest
sys.path.insert(0, {engines!r})
import truth

class Test(unittest.TestCase):
    def test(self):
        for name in ("a", "b"):
            with self.subTest(name):
                {fails}

unittest.main()
"""


class TruthTest(unittest.TestCase):
    def judged(self, fails):
        """What the script says of a file that fails so."""
        ended = subprocess.run([sys.executable, "-c", FILE.format(engines=str(ENGINES), fails=fails)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, 1, ended.stdout)
        with contextlib.redirect_stdout(io.StringIO()):
            return test_engines.judge({"said": ended.stdout, "code": ended.returncode, "seconds": 1, "cpu_s": 1})[0]

    def test_what_is_wrong_is_not_run_again(self):
        for name, arguments in FAILS.items():
            self.assertEqual(self.judged(f"truth.{name}(*{arguments!r})"), "wrong", name)
        self.assertEqual(self.judged("self.assertEqual([1] * 99, [2] * 99, 'wrong tokens')"), "wrong")
        self.assertEqual(self.judged("self.assertEqual(1, 2, 'it is late')"), "failed")

    def test_what_is_right_passes(self):
        for name, arguments in PASSES.items():
            getattr(truth, name)(*arguments)

    def test_answers_of_other_lengths_and_of_no_number_are_wrong(self):
        for logprobs in ([float("nan")], [0.5, 0.5], []):
            with self.subTest(logprobs=logprobs), self.assertRaisesRegex(AssertionError, "wrong tokens"):
                truth.assert_answer(([1], logprobs), ([1], [0.5]), 0.01)


if __name__ == "__main__":
    unittest.main()
