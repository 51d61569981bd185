"""Output that cannot be written ends no process, loses no page, and never passes for written."""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import unittest

from hold_test import HoldCase
from program import PATIENCE_S, PROGRAM, Case, wait_until
from replay_traces import write_trace


def closing(*descriptors):
    """For Popen: the program begins without these."""
    def close():
        for descriptor in descriptors:
            os.close(descriptor)
    return close


class ServerTest(HoldCase):
    def start(self, *arguments, **options):
        process = subprocess.Popen(self.command(arguments, None), env=self.environment, cwd=self.folder, start_new_session=True, **options)
        self.addCleanup(self.end, process)
        return process

    def node_arguments(self):
        return ("node", "--listen", self.folder / "n.sock", "--state", self.folder / "state", "--pool-bytes", "16MiB")

    def serves(self, process):
        process.address = str(self.folder / "n.sock")
        self.assertTrue(wait_until(lambda: process.poll() is not None or self.status(process) is not None))
        self.assertIsNone(process.poll(), "it has ended")

    def ends_well(self, process):
        process.terminate()
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_a_node_begins_without_standard_streams(self):
        node = self.start(*self.node_arguments(), preexec_fn=closing(0, 1, 2))
        self.serves(node)
        for descriptor in range(3):
            self.assertEqual(os.readlink(f"/proc/{node.pid}/fd/{descriptor}"), "/dev/null")
        self.ends_well(node)

    def test_a_node_whose_descriptor_for_ready_is_a_stream_keeps_its_number(self):
        read_end, write_end = os.pipe()
        node = self.start(*self.node_arguments(), "--ready-fd", 2, stderr=write_end)
        os.close(write_end)
        with os.fdopen(read_end) as ready:
            self.assertIn("ready ", ready.readline())
            self.assertIn("pipe:", os.readlink(f"/proc/{node.pid}/fd/2"))
            self.ends_well(node)

    def test_a_node_whose_reader_has_gone_goes_on(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        node = self.start(*self.node_arguments(), stdout=write_end, stderr=write_end)
        os.close(write_end)
        self.serves(node)
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as stranger:  # of whom it warns
            stranger.connect(node.address)
            stranger.sendall(b"x" * 64)
            stranger.recv(1)
        self.assertIsNotNone(self.status(node))
        self.ends_well(node)

    def test_pages_outlive_their_node_though_nobody_can_be_told(self):
        """Nor is the holder's own socket left: who cleans /tmp has removed it."""
        with open("/dev/full", "wb") as full:
            holder = self.start("hold", "--", PROGRAM, *self.node_arguments(), stdout=full, stderr=full)
        self.addCleanup(lambda: holder.poll() is None and holder.terminate())
        self.serves(holder)
        done = self.run_program("bench", "put", "--node", holder.address, "--page-bytes", "30KiB", "--pool-bytes", "4MiB", "--seconds", 0.05)
        self.assertEqual(done.returncode, 0, done.stderr)
        for folder in self.temporary.iterdir():
            shutil.rmtree(folder)
        for _ in range(2):
            before = self.status(holder)
            self.assertGreater(before["slots_live"], 0)
            os.kill(self.node_of(holder), signal.SIGKILL)
            after = self.wait_for_next_run(holder, before)
            self.assertEqual(after["slots_live"], before["slots_live"])
        self.ends_well(holder)
        self.assert_nothing_left()

    def test_a_held_command_has_the_signals_of_the_system(self):
        ignored = self.run_program("hold", "--", "grep", "SigIgn", "/proc/self/status")
        self.assertEqual(int(ignored.stdout.split()[1], 16) & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)), 0)


class ResultTest(Case):
    def replay(self, *arguments):
        trace = self.folder / "trace.jsonl"
        write_trace(trace, [[step % 3] for step in range(9)])
        return ("policies", trace, "--policy", "lru", "--budget", 2, *arguments)

    def commands(self):
        return [("--help",), ("--version",), ("bench", "fetch", "--help"), ("doctor", "--json", "-"), self.replay(), self.replay("--json", "-"),
                self.replay("--csv", "-")]

    def assert_told(self, command, result):
        self.assertEqual(result.returncode, 1, command)
        self.assertIn("cannot write", result.stderr, command)

    def run_into(self, command, stdout, **options):
        return subprocess.run(self.command(command, None), stdout=stdout, stderr=subprocess.PIPE, text=True, env=self.environment, timeout=PATIENCE_S, check=False, **options)

    def test_a_result_that_goes_nowhere_is_a_failure(self):
        for command in self.commands():
            with open("/dev/full", "wb") as full:
                self.assert_told(command, self.run_into(command, full))
            read_end, write_end = os.pipe()
            os.close(read_end)
            self.assert_told(command, self.run_into(command, write_end))
            os.close(write_end)
            self.assert_told(command, self.run_into(command, None, preexec_fn=closing(1)))

    def test_a_file_that_is_cut_off_is_a_failure(self):
        def allow_few_bytes():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        for target in ("/dev/full", self.folder / "result.json", self.folder / "no such folder" / "result.json"):
            command = self.replay("--json", target)
            self.assert_told(command, self.run_into(command, subprocess.PIPE, preexec_fn=allow_few_bytes))

    def test_one_file_that_cannot_be_written_costs_no_other(self):
        good = self.folder / "good.json"
        result = self.run_into(self.replay("--csv", self.folder / "no such folder" / "a.csv", "--json", good), subprocess.PIPE)
        self.assert_told("--csv", result)
        self.assertIn('"policy": "lru"', good.read_text())
        self.assertIn("lru", result.stdout)

    def test_a_file_that_cannot_be_written_costs_no_table(self):
        command = ("bench", "importance", "--blocks", 4096, "--layers", 4, "--steps", 20)
        result = self.run_into((*command, "--json", self.folder / "no such folder" / "result.json"), subprocess.PIPE)
        self.assert_told(command, result)
        self.assertIn("4096 blocks", result.stdout)

    def test_an_error_that_nobody_hears_is_one_all_the_same(self):
        for command, code in ((("status", "--node", self.folder / "none"), 1), (("nonsense",), 2)):
            for options in ({"preexec_fn": closing(2)}, {"preexec_fn": closing(0, 1, 2)}):
                self.assertEqual(subprocess.run(self.command(command, None), env=self.environment, timeout=PATIENCE_S, check=False, **options).returncode, code)
            with open("/dev/full", "wb") as full:
                self.assertEqual(subprocess.run(self.command(command, None), stderr=full, env=self.environment, timeout=PATIENCE_S, check=False).returncode, code)


if __name__ == "__main__":
    unittest.main(verbosity=2)
