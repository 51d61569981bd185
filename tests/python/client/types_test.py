"""The package's types are complete, and a program that uses them is checked by them."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from client_case import SOURCE, faulthandler
from program import skip_or_fail

PACKAGE = SOURCE / "python/farpage"
# To look at what the package imports, NumPy above all, takes a minute. mypy does it again where a
# file has changed.
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "farpage-mypy"
# The recorder's, and those that import an engine, which is not here.
UNTYPED = {"access_trace.py", "attended_pages.py", "marks.py", "record.py", "sglang_pools.py", "lmcache.py", "sglang.py", "sglang_facts.py", "vllm.py",
           "vllm_connector.py", "vllm_facts.py", "vllm_plugin.py"}
USE = """
import farpage
with farpage.open("x.sock", lanes=2, security={"tls": True}) as client:
    ticket: farpage.Ticket = client.fetch(farpage.page_key("space", "name"), bytearray(8), timeout_s=None)
    client.observe([bytes(16)], 1, mass=[0.5], mark=farpage.Mark.BEGINS)
    near: int = client.statistics().near_ready
    reveal_type(ticket.done)
    farpage.opne()
    client.fetch(b"", bytearray(8), timeout_s="1")
    client.statistics().near_ready = 1
"""


class TypesTest(unittest.TestCase):
    def setUp(self):
        faulthandler.cancel_dump_traceback_later()  # mypy has a timeout of its own
        try:
            import mypy  # noqa: F401
        except ImportError:
            skip_or_fail(self, "needs mypy: python3 -m pip install mypy")

    def mypy(self, *arguments):
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(CACHE), "--follow-imports", "silent", *map(str, arguments)]
        return subprocess.run(command, cwd=SOURCE / "python", capture_output=True, text=True, timeout=280, check=False).stdout

    def test_the_package_is_typed_throughout(self):
        self.assertTrue((PACKAGE / "py.typed").is_file())
        said = self.mypy(*sorted(path for path in PACKAGE.rglob("*.py") if path.name not in UNTYPED))
        self.assertIn("no issues found", said, said)

    def test_a_program_is_checked(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "use.py"
            program.write_text(USE)
            said = self.mypy(program)
        self.assertRegex(said, r'Revealed type is "(builtins\.)?bool"')
        self.assertIn('has no attribute "opne"', said)
        self.assertRegex(said, r'incompatible type "str"; expected "(float \| None|Optional\[float\])"')
        self.assertIn('Property "near_ready" defined in "Statistics" is read-only', said)
        self.assertIn("Found 3 errors", said)


if __name__ == "__main__":
    unittest.main()
