"""Runs the built program: what the tests of the command line share."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

PROGRAM = os.environ["FARPAGE"]
LAB = str(pathlib.Path(PROGRAM).parent / "farpage-lab")
LAB_COMMANDS = {"replay", "policies", "prefetch", "live", "kvhl", "analyse", "generate", "chaos"}
LAB_BENCHES = {"importance", "recovery", "scale", "turns"}
SOURCE = pathlib.Path(__file__).resolve().parents[3]
PATIENCE_S = 100


def wait_until(condition, seconds=PATIENCE_S):
    """Whether it came true. A machine that is busy, or a sanitizer, may take long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


def stop(pid):
    """Stops all the process's threads: after the signal each goes on for a moment."""
    os.kill(pid, signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{pid}/task")

    def is_stopped():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # of a thread that ended
            return all(" T " in (each / "stat").read_text() for each in threads.iterdir())
        return False

    if not wait_until(is_stopped):
        raise AssertionError(f"process {pid} does not stop")


def stop_node(case, node):
    """... until the case ends."""
    stop(node.pid)
    case.addCleanup(node.send_signal, signal.SIGCONT)


def processes_naming(text):
    """The ids of all processes in whose command line the text stands."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def program_of(arguments):
    """Which of the two programs has the command that these arguments begin with."""
    words = list(map(str, arguments[:2]))
    in_lab = words[:1] in [[command] for command in LAB_COMMANDS] or words in [["bench", bench] for bench in LAB_BENCHES]
    return LAB if in_lab else PROGRAM


def ucx_mapped(process):
    """Which of UCX's libraries, and of our module, that process has."""
    maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    return set(re.findall(r"/lib(ucp|uct|ucs|ucm|farpage_ucx)\b[^/]*$", maps, re.MULTILINE))


def values_of(scrape):
    """{sample: value} of what Prometheus is shown."""
    return {sample: float(value) for sample, value in re.findall(r"^([a-z][^\s{]*(?:\{.*\})?) (\S+)$", scrape, re.MULTILINE)}


def fetch(url):
    with urllib.request.urlopen(url, timeout=30) as response:
        return response.read().decode()


def skip_or_fail(case, why):
    """Skips a test whose needs are missing on a machine, and fails it where CI judges changes."""
    print(f"skipped: {why}", flush=True)
    case.fail(why) if os.environ.get("CI") else case.skipTest(why)


def require_root(case):
    if os.geteuid() != 0:
        skip_or_fail(case, "needs root: run the tests as root")


class Case(unittest.TestCase):
    """Each test has a folder of its own, which is also the program's TMPDIR."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fp"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.temporary)}

    def command(self, arguments, place):
        """The whole command line; where places differ, another program stands in front."""
        return [program_of(arguments), *map(str, arguments)]

    def run_program(self, *arguments, place=None, timeout=PATIENCE_S, **options):
        return subprocess.run(
            self.command(arguments, place), capture_output=True, text=True, env=self.environment,
            timeout=timeout, cwd=self.folder, check=False, **options)

    def start_program(self, *arguments, place=None, **options):
        process = subprocess.Popen(
            self.command(arguments, place), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment, cwd=self.folder, start_new_session=True, **options)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate()

    def start_node(self, *arguments, name="node", listen=None, place=None, pool="64MiB"):
        """A node that serves, on a Unix socket unless told otherwise."""
        socket = self.folder / f"{name}.sock"
        node = self.start_program("node", "--listen", listen or socket, "--state", self.folder / f"{name}.state",
                                  "--pool-bytes", pool, *arguments, place=place)
        line = self.line_saying(node, "serving")
        node.socket = socket
        node.address = re.search(r" on (\S+) \(", line).group(1)
        return node

    def status(self, node, *arguments):
        """None: the node does not run, or refuses. A busy one has more time than usual."""
        answers = []
        def ask():
            answers.append(self.run_program("status", "--node", node.address, *arguments, "--json", "-"))
            return answers[-1].returncode == 0 or "is it stopped" not in answers[-1].stderr
        wait_until(ask)
        return json.loads(answers[-1].stdout) if answers[-1].returncode == 0 else None

    def line_saying(self, process, words):
        """The first line on stderr with these words, after any others, as of a slow etcd."""
        said = ""
        for line in process.stderr:
            if words in line:
                return line
            said += line
        self.fail(f"the program has ended, and told no {words!r}, but {said!r}")

    def metrics_url(self, process):
        return re.search(r"metrics on (http://\S+)", self.line_saying(process, "metrics on http://")).group(1)

    def scrape(self, url, place):
        return fetch(url)

    def replay_result(self, replay, interrupted=False):
        """The result of a replay that ended or was interrupted: right bytes and no late verdict."""
        output, errors = replay.communicate(timeout=PATIENCE_S)
        replay.said = errors
        self.assertEqual(replay.returncode, 1 if interrupted else 0, errors)
        self.assertEqual("interrupted" in errors, interrupted, errors)
        answer = json.loads(output)
        self.assertEqual((answer["wrong_bytes"], answer["local_wrong_bytes"]), (0, 0))
        self.assert_in_time(answer["deadlines"])
        demanded = answer["local_hits"] + answer["verdicts"]["ready"] + answer["verdicts"]["recompute"]
        self.assertEqual(demanded, answer["pages_demanded"])
        return answer

    def assert_in_time(self, deadlines):
        self.assertEqual(deadlines["missed"], 0, deadlines)

    def assert_fails(self, result, exit_code, *texts):
        self.assertEqual(result.returncode, exit_code, result.stderr)
        self.assertEqual(result.stdout, "")
        for text in texts:
            self.assertIn(text, result.stderr)

    def assert_nothing_left(self):
        self.assertEqual(list(self.temporary.iterdir()), [])
        self.assertTrue(wait_until(lambda: not processes_naming(str(self.temporary))),
                        processes_naming(str(self.temporary)))
