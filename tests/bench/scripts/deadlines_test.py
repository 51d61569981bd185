"""bench/scripts/deadlines.py: nodes stop and die beside a bench, and a run draws objections."""

import json
import os
import signal
import subprocess
import time
import types
import unittest
from unittest import mock

import deadlines
import measure

PROGRAM = os.environ["FARPAGE"]
GOOD = {"wrong_bytes": 0, "holds": True, "late": 0, "at_deadline": 500}
NAP_US = 1_000  # of the watchdog: it does not want to run
FAULTS = {"stop": 8, "kill": 2}
BEGUN_TICKS = 10


def cpu_ticks(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class JudgeTest(unittest.TestCase):
    def assert_against(self, text, answer=None, faults=None):
        against = list(deadlines.judge({**GOOD, **(answer or {})}, {**FAULTS, **(faults or {})}))
        self.assertEqual(len(against), 1)
        self.assertIn(text, against[0])

    def test_a_run_without_a_fault_of_ours(self):
        self.assertEqual(list(deadlines.judge(GOOD, FAULTS)), [])

    def test_a_verdict_later_than_the_watchdog(self):
        self.assert_against("3 fetches", {"holds": False, "late": 3})

    def test_a_wrong_byte(self):
        self.assert_against("1 wrong bytes", {"wrong_bytes": 1})

    def test_a_run_that_could_have_shown_nothing(self):
        self.assert_against("nothing to judge", {"at_deadline": 0})
        self.assert_against("every kind of fault", faults={"kill": 0})
        self.assert_against("every kind of fault", faults={"stop": 0})


class MeasureTest(unittest.TestCase):
    def test_nodes_are_stopped_and_killed_while_it_fetches(self):
        sent = []
        send_signal = deadlines.subprocess.Popen.send_signal

        def remember(process, number):
            sent.append(number)
            send_signal(process, number)

        options = types.SimpleNamespace(farpage=PROGRAM, seconds=6, batch=32)
        with mock.patch.object(deadlines.subprocess.Popen, "send_signal", remember):
            answer, faults = deadlines.measure(options, "tcp")
        self.assertGreater(min(faults.values()), 0)
        self.assertEqual(sent.count(signal.SIGSTOP), sent.count(signal.SIGCONT))
        self.assertGreaterEqual(sent.count(signal.SIGSTOP), faults["stop"])
        self.assertGreater(answer["fetches"], 0)
        self.assertGreater(answer["watchdog_delay_us"]["count"], 0)
        self.assertGreater(answer["verdicts"]["ready"], 0)
        self.assertGreater(answer["verdicts"]["recompute"], 0)  # all nodes stood still at one time
        self.assertEqual(answer["wrong_bytes"], 0)
        self.assertEqual(answer["holds"], answer["late"] == 0)

    def test_the_watchdog_knows_how_long_the_process_stood_still(self):
        command = [PROGRAM, "bench", "deadlines", "--page-bytes", "4KiB", "--batch", "8", "--pool-bytes", "1MiB", "--seconds", "4",
                   "--json", "-"]
        with measure.running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
            self.assertIn("filled", bench.stderr.readline())
            begun = cpu_ticks(bench)
            while cpu_ticks(bench) < begun + BEGUN_TICKS:  # its threads run
                time.sleep(0.005)
            bench.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, bench.pid, os.WSTOPPED)
            begin = time.monotonic()
            time.sleep(0.3)  # this long is the fault
            stood_still_s = time.monotonic() - begin
            bench.send_signal(signal.SIGCONT)
            output, _ = bench.communicate(timeout=60)
        answer = json.loads(output)
        self.assertGreaterEqual(answer["watchdog_delay_max_us"], stood_still_s * 1e6 - NAP_US)


if __name__ == "__main__":
    unittest.main()
