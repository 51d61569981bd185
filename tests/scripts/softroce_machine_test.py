"""tests/softroce/machine: it reports events in the machine, and why there is no machine."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

MACHINE = pathlib.Path(__file__).resolve().parents[1] / "softroce" / "machine"
HAS_QEMU = shutil.which("qemu-system-x86_64") is not None


class MachineCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="softroce, with space ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *arguments, **environment):
        return subprocess.Popen([sys.executable, MACHINE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, cwd=self.folder, env={**os.environ, **environment})

    def run_machine(self, *arguments, **environment):
        with self.start(*arguments, **environment) as machine:
            output, errors = machine.communicate()
        return machine.returncode, output, errors

    def stand_in(self, name, text):
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        path = tools / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return f"{tools}:{os.environ['PATH']}"


class NoMachineTest(MachineCase):
    def test_no_command(self):
        status, _, errors = self.run_machine()
        self.assertEqual(status, 2)
        self.assertIn("there is no command", errors)
        status, _, errors = self.run_machine("--prepare", "true")
        self.assertEqual(status, 2)
        self.assertIn("there is a command besides --prepare", errors)

    def test_a_command_that_does_not_exist(self):
        self.assertEqual(self.run_machine("./nothing"), (127, "", "machine: there is no program ./nothing\n"))

    def test_no_qemu(self):
        tools = self.folder / "tools"
        tools.mkdir()
        for tool in ("true", "setpriv"):
            (tools / tool).symlink_to(shutil.which(tool))
        status, _, errors = self.run_machine("true", PATH=str(tools))
        self.assertEqual(status, 125)
        self.assertIn("there is no qemu-system-x86_64: scripts/setup softroce installs it", errors)

    def test_no_kernel_to_be_had(self):
        self.stand_in("qemu-system-x86_64", "exit 1")
        self.stand_in("apt-cache", "echo 'E: No packages found' >&2; exit 100")
        path = self.stand_in("apt-get", "echo \"apt-get $*: no network\" >&2; exit 100")
        cache = self.folder / "cache"
        status, _, errors = self.run_machine("true", PATH=path, FARPAGE_SOFTROCE_DIR=str(cache))
        self.assertEqual(status, 125)
        self.assertIn("apt-get update -qq -o Acquire::Retries=3 -o Acquire::http::Timeout=30: no network", errors)
        self.assertEqual(list(cache.iterdir()), [])
        status, _, errors = self.run_machine("--prepare", PATH=path, FARPAGE_SOFTROCE_DIR=str(cache))
        self.assertEqual(status, 125)
        self.assertIn("no network", errors)


class BootedTest(MachineCase):
    LIMIT_S = 200  # for a boot of 10 s: one that hangs says so, before the test is ended

    def setUp(self):
        super().setUp()
        if not HAS_QEMU:
            why = "there is no qemu-system-x86_64: scripts/setup softroce installs it"
            print(f"skipped: {why}", flush=True)
            self.fail(why) if os.environ.get("CI") else self.skipTest(why)

    def test_two_at_once_each_tell_what_their_command_did(self):
        here = self.folder / "here"
        here.write_text("of the host")
        script = ('echo "$1"; echo said >&2; echo changed >here; echo new >/tmp/of_the_machine; pwd >"$2/left"; ls /sys/class/infiniband; '
                  'sleep 1000 & exit "$3"')
        outs = [self.folder / name for name in ("first, out", "second")]
        machines = [self.start("--limit-s", self.LIMIT_S, "--out", out, "sh", "-c", script, "sh", "two  words", out.resolve(), status)
                    for out, status in zip(outs, (7, 0))]
        for machine, out, status in zip(machines, outs, (7, 0)):
            with machine:
                output, errors = machine.communicate()
            console = (out / "console").read_text(errors="replace")
            self.assertEqual((machine.returncode, errors), (status, ""), console[-4000:])
            self.assertEqual(output, "two  words\nsaid\nrxe0\nrxe1\nrxe2\n")
            self.assertEqual((out / "left").read_text(), f"{self.folder}\n")
        self.assertEqual(here.read_text(), "of the host")
        self.assertFalse(pathlib.Path("/tmp/of_the_machine").exists())

    def test_the_time_limit(self):
        out = self.folder / "out"
        status, _, errors = self.run_machine("--limit-s", 2, "--out", out, "sleep", "1000")
        self.assertEqual(status, 124)
        self.assertIn("did not end within 2 s", errors)
        self.assertFalse((out / "status").exists())

    def test_a_kernel_that_panics(self):
        status, _, errors = self.run_machine("--limit-s", self.LIMIT_S, "sh", "-c", "echo c >/proc/sysrq-trigger")
        self.assertEqual(status, 125)
        self.assertIn("the machine stopped before the command had ended", errors)
        self.assertIn("sysrq_handle_crash", errors)

    def test_a_machine_that_qemu_refuses(self):
        path = self.stand_in("qemu-system-x86_64", "echo 'cannot set up guest memory' >&2; exit 1")
        status, _, errors = self.run_machine("true", PATH=path)
        self.assertEqual(status, 125)
        self.assertIn("cannot set up guest memory", errors)

    def test_one_that_is_killed_leaves_nothing_running(self):
        path = self.stand_in("qemu-system-x86_64", f'echo $$ >"{self.folder}/pid"; exec sleep 1000')
        pid_file = self.folder / "pid"
        with self.start("true", PATH=path) as machine:
            self.wait_until(lambda: pid_file.exists() and pid_file.read_text().strip())
            machine.kill()
        self.wait_until(lambda: not pathlib.Path("/proc", pid_file.read_text().strip()).exists())

    def wait_until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
