"""The examples in Python of the README and of docs/python.md run as they are printed."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

from client_case import SOURCE, farpage, run_script

README_LINES_MAX = 10


def blocks(document):
    return re.findall(r"```python\n(.*?)```", (SOURCE / document).read_text(encoding="utf-8"), re.DOTALL)


class DocumentsTest(unittest.TestCase):
    def ran(self, text, before="import client_case\n"):
        result = run_script(before + text)  # which gives calls time
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stderr)
        return result.stdout

    def test_the_readme_is_short_and_says_what_it_prints(self):
        (example,) = blocks("README.md")
        self.assertLessEqual(len(example.splitlines()), README_LINES_MAX)
        said = re.findall(r"print\(.*\)  # ([^:]*):", example)
        self.assertEqual(self.ran(example).splitlines(), said)

    def test_all_blocks_of_the_document_are_one_program(self):
        program = "".join(blocks("docs/python.md"))
        self.assertEqual(self.ran(program), "")
        calls = {name for kind in (farpage.Client, farpage.Region, farpage.Ticket, farpage.KeySpace) for name in vars(kind) if name[0] != "_"}
        text = (SOURCE / "docs/python.md").read_text(encoding="utf-8")
        self.assertEqual({name for name in calls if not re.search(rf"\b{name}\b", text)}, set())
        self.assertEqual({name for name in farpage.__all__ if not re.search(rf"\b{name}\b", text)} - {"Client", "Ticket", "Region", "Pages"}, set())

    def test_every_call_says_what_it_does(self):
        for name in farpage.__all__:
            kind = getattr(farpage, name)
            if callable(kind):
                self.assertTrue(kind.__doc__, name)
        for kind in (farpage.Client, farpage.Region, farpage.Ticket, farpage.KeySpace, farpage.Node):
            for name, value in vars(kind).items():
                self.assertTrue(name[0] == "_" or value.__doc__, f"{kind.__name__}.{name}")

    def test_the_import_loads_no_numpy_and_is_quick(self):
        run = "import sys, farpage; assert not {'numpy', 'ctypes', 'asyncio', 'typing'} & (sys.modules.keys() - before), sys.modules.keys() - before"
        self.ran(f"before = set(sys.modules)\n{run}", before="")

    def test_the_command_line(self):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python")}
        command = [sys.executable, "-B", "-m", "farpage"]
        result = subprocess.run([*command, "--version"], env=environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(farpage.__version__, result.stdout)
        with tempfile.TemporaryDirectory() as folder:
            environment["FARPAGE_PROGRAM"] = f"{folder}/none"
            result = subprocess.run([*command, "status"], env=environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("FARPAGE_PROGRAM", result.stderr)

    def test_a_library_that_is_missing_or_another_is_a_sentence(self):
        for library, words in (("/nowhere/libfarpage.so", "cannot be loaded"), ("libc.so.6", "libc.so.6 has no farpage_")):
            said = self.ran(f"""
import os
os.environ["FARPAGE_LIBRARY"] = "{library}"
import farpage
try:
    farpage.open(embedded=True)
except ConnectionError as error:
    print(error)
""", before="")
            self.assertIn("FARPAGE_LIBRARY", said)
            self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main()
