"""scripts/fetch-traces, against file:// sources and copies of the script that expect a small trace."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "fetch-traces"
TRACE = b'{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [0]}\n' * 100


class FetchTracesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.into = self.folder / "traces"
        self.trace = self.into / "mooncake" / "conversation_trace.jsonl"
        self.source = self.folder / "source.jsonl"
        self.source.write_bytes(TRACE)
        self.script = self.folder / "scripts" / "fetch-traces"
        self.script.parent.mkdir()
        text = SCRIPT.read_text()
        text, sums = re.subn("expected_sha256=.*", f"expected_sha256={hashlib.sha256(TRACE).hexdigest()}", text)
        text, sizes = re.subn("expected_bytes=.*", f"expected_bytes={len(TRACE)}", text)
        self.assertEqual((sums, sizes), (1, 1))
        self.script.write_text(text)
        shutil.copymode(SCRIPT, self.script)

    def fetch(self, *arguments, script=None, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FARPAGE_")}
        command = [script or self.script, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env={**clean, **environment})

    def fetch_source(self, **options):
        return self.fetch("--source", self.source.as_uri(), "--into", self.into, **options)

    def assert_nothing_left(self):
        self.assertEqual([path for path in self.into.rglob("*") if path.is_file()], [])

    def test_a_good_source(self):
        fetched = self.fetch_source()
        self.assertEqual(fetched.returncode, 0, fetched)
        self.assertEqual(self.trace.read_bytes(), TRACE)
        self.assertEqual([path.name for path in self.trace.parent.iterdir()], [self.trace.name])
        self.assertEqual(self.trace.stat().st_mode & 0o777, 0o644)

    def test_the_source_and_the_folder_have_defaults(self):
        fetched = self.fetch(FARPAGE_TRACES_URL=self.source.as_uri())
        self.assertEqual(fetched.returncode, 0, fetched)
        self.assertEqual((self.folder / "traces/mooncake/conversation_trace.jsonl").read_bytes(), TRACE)

    def test_python_serves_where_curl_is_missing(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for tool in ("bash", "env", "python3", "stat", "sha256sum", "cut", "mktemp", "mkdir", "mv", "rm", "chmod", "dirname"):
            (tools / tool).symlink_to(shutil.which(tool))
        fetched = self.fetch_source(PATH=str(tools))
        self.assertEqual(fetched.returncode, 0, fetched)
        self.assertEqual(self.trace.read_bytes(), TRACE)
        (tools / "python3").unlink()
        self.trace.unlink()
        self.assertIn("neither curl nor python3", self.fetch_source(PATH=str(tools)).stderr)
        self.assert_nothing_left()

    def test_a_trace_that_is_there_is_not_fetched_again(self):
        self.fetch_source()
        self.source.unlink()
        fetched = self.fetch_source()
        self.assertEqual(fetched.returncode, 0, fetched)
        self.assertIn("there already", fetched.stdout)

    def test_a_damaged_trace_is_replaced(self):
        self.fetch_source()
        self.trace.write_bytes(TRACE[:-1])
        self.assertEqual(self.fetch_source().returncode, 0)
        self.assertEqual(self.trace.read_bytes(), TRACE)

    def test_a_wrong_checksum(self):
        for content in (TRACE[:-1] + b" ", TRACE[:-1], b""):
            self.source.write_bytes(content)
            fetched = self.fetch_source()
            self.assertEqual(fetched.returncode, 1)
            self.assertIn("is not the trace", fetched.stderr)
            self.assertIn(hashlib.sha256(content).hexdigest(), fetched.stderr)
            self.assert_nothing_left()

    def test_the_real_script_wants_the_real_trace(self):
        fetched = self.fetch_source(script=SCRIPT)
        self.assertEqual(fetched.returncode, 1)
        self.assertIn("b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df", fetched.stderr)
        self.assert_nothing_left()

    def test_a_missing_source(self):
        self.source.unlink()
        fetched = self.fetch_source()
        self.assertEqual(fetched.returncode, 1)
        self.assertIn(f"cannot download {self.source.as_uri()}", fetched.stderr)
        self.assert_nothing_left()

    def test_a_folder_that_cannot_be_made(self):
        self.into.write_text("")
        fetched = self.fetch_source()
        self.assertEqual(fetched.returncode, 1)
        self.assertIn("cannot make the folder", fetched.stderr)

    def test_wrong_arguments(self):
        for arguments in (["--sauce", "x"], ["extra"]):
            fetched = self.fetch(*arguments)
            self.assertEqual(fetched.returncode, 2)
            self.assertIn("usage:", fetched.stderr)
        for option in ("--source", "--into"):
            fetched = self.fetch(option)
            self.assertNotEqual(fetched.returncode, 0)
            self.assertIn(f"{option} needs", fetched.stderr)


if __name__ == "__main__":
    unittest.main()
