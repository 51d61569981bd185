"""The example of docs/c-api.md is short, stands there as it is compiled, and does what it says."""

import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LINES_MAX = 40


class ExampleTest(unittest.TestCase):
    def test_it_prints_the_verdict(self):
        run = subprocess.run([os.environ["FARPAGE_C_EXAMPLE"]], capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(run.stdout, "put: ok\nfetch: ready, the bytes of a page\n")

    def test_the_document_has_it(self):
        source = (ROOT / "examples/c/first_page.c").read_text()
        self.assertLessEqual(len(source.splitlines()), LINES_MAX)
        self.assertIn(f"```c\n{source}```\n", (ROOT / "docs/c-api.md").read_text())


if __name__ == "__main__":
    unittest.main()
