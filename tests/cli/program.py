"""Runs the built program: what the tests of the command line share."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["FARPAGE"]
SOURCE = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 100


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


def processes_naming(text):
    """The ids of all processes in whose command line the text stands."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


class Case(unittest.TestCase):
    """Each test has a folder of its own, which is also the program's TMPDIR."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fp"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.temporary)}

    def run_program(self, *arguments, **options):
        return subprocess.run(
            [PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=self.environment,
            timeout=PATIENCE_S, cwd=self.folder, check=False, **options)

    def start_program(self, *arguments):
        process = subprocess.Popen(
            [PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment, cwd=self.folder, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate()

    def start_node(self, *arguments, name="node"):
        """A node that serves; its pool is small unless the arguments say otherwise."""
        socket = self.folder / f"{name}.sock"
        node = self.start_program("node", "--listen", socket, "--state", self.folder / f"{name}.state",
                                  "--pool-bytes", "64MiB", *arguments)
        line = node.stderr.readline()
        self.assertIn("serving", line)
        node.socket = socket
        return node

    def status(self, node):
        answer = self.run_program("status", "--node", node.socket, "--json", "-")
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def assert_fails(self, result, exit_code, *texts):
        self.assertEqual(result.returncode, exit_code, result.stderr)
        self.assertEqual(result.stdout, "")
        for text in texts:
            self.assertIn(text, result.stderr)

    def assert_nothing_left(self):
        self.assertEqual(list(self.temporary.iterdir()), [])
        self.assertTrue(wait_until(lambda: not processes_naming(str(self.temporary))),
                        processes_naming(str(self.temporary)))
