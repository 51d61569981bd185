"""The first example of docs/c-api.md is short, stands there as it is compiled, and does what it
says. Its other blocks of C are a program that makes every call of farpage.h."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LINES_MAX = 40
FETCHED = [f"fetch: the bytes of page {number}" for number in range(4)]
WALK = [*["put: ok "] * 4, *FETCHED, *FETCHED, "ready so far: 8", "removed 1, leading 2, page 2: recompute, miss"]


def walk(*arguments):
    return subprocess.run([os.environ["FARPAGE_C_WALK"], *arguments], capture_output=True, text=True, timeout=60)


class ExampleTest(unittest.TestCase):
    def test_it_prints_the_verdict(self):
        run = subprocess.run([os.environ["FARPAGE_C_EXAMPLE"]], capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(run.stdout, "put: ok\nfetch: ready, the bytes of a page\n")

    def test_the_document_has_it(self):
        source = (ROOT / "examples/c/first_page.c").read_text()
        self.assertLessEqual(len(source.splitlines()), LINES_MAX)
        self.assertIn(f"```c\n{source}```\n", (ROOT / "docs/c-api.md").read_text())

    def test_the_walk_makes_every_call(self):
        header = (ROOT / "include/farpage/farpage.h").read_text()
        declared = set(re.findall(r"^FARPAGE_API .*?(\w+)\(", header, re.MULTILINE))
        initial = set(re.findall(r"#define (FARPAGE_\w+_INIT)", header))
        self.assertGreater(len(declared), 30)
        _, *blocks = re.findall(r"```c\n(.*?)```", (ROOT / "docs/c-api.md").read_text(), re.DOTALL)
        program = re.sub(r"//.*", "", "".join(blocks))
        self.assertEqual({name for name in declared if f"{name}(" not in program}, set())
        self.assertEqual({name for name in initial if name not in program}, set())

    def test_the_walk_does_what_it_says(self):
        ran = walk()
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        first, *lines = ran.stdout.splitlines()
        self.assertRegex(first, r"^farpage \S+, pages of up to 65536 bytes$")
        self.assertEqual(lines, WALK)

    def test_the_walk_opens_the_file_that_it_is_given(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "client.toml"
            path.write_text("[client]\nembedded = true\n[embedded]\npage_bytes = 8192\n[ahead]\npages = 2\n")
            ran = walk(str(path))
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            self.assertIn("pages of up to 8192 bytes", ran.stdout)
            self.assertEqual(ran.stdout.splitlines()[1:], WALK)
            path.unlink()
            ran = walk(str(path))
            self.assertEqual((ran.returncode, ran.stdout), (1, ""))
            self.assertIn("not found: ", ran.stderr)


if __name__ == "__main__":
    unittest.main()
