"""A node is killed, stopped or restarted in the middle of a replay, and a replay is interrupted."""

import os
import random
import signal
import time
import unittest

from faults import Faults, WarmReads
from program import PATIENCE_S, Case, processes_naming, wait_until


class ShmFaultsTest(Faults, Case):
    pass


class ShmWarmReadsTest(WarmReads, Case):
    pass


class EndTest(Case):
    def test_an_interrupt_at_any_time_leaves_nothing(self):
        seed = int(os.environ.get("FARPAGE_SEED", 1))
        print("seed", seed)
        draw = random.Random(seed)
        commands = (
            ("replay", "generate", "--requests", "200000", "--page-bytes", "4096", "--pool-bytes", "256MiB"),
            ("bench", "fetch", "--page-bytes", "4096", "--pool-bytes", "256MiB", "--seconds", "60"),
        )
        for round_number in range(12):
            program = self.start_program(*commands[round_number % 2])
            delay_s = draw.uniform(0, 0.1 if round_number % 4 < 2 else 1.0)
            time.sleep(delay_s)
            # To the whole group, as a terminal does.
            os.killpg(program.pid, draw.choice((signal.SIGINT, signal.SIGTERM)))
            _, errors = program.communicate(timeout=PATIENCE_S)
            # A signal that comes before main() still ends the process by itself.
            self.assertIn(program.returncode, (1, -signal.SIGINT, -signal.SIGTERM), errors)
            if program.returncode == 1:
                self.assertIn("interrupted", errors, delay_s)
            self.assert_nothing_left()

    def test_a_killed_program_takes_its_node_with_it(self):
        program = self.start_program("replay", "generate", "--requests", "200000", "--page-bytes", "4096",
                                     "--pool-bytes", "64MiB")
        self.assertTrue(wait_until(lambda: processes_naming(str(self.temporary))))
        program.kill()
        program.communicate()
        self.assertTrue(wait_until(lambda: not processes_naming(str(self.temporary))))

    def test_a_node_ends_cleanly(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            node = self.start_node()
            node.send_signal(number)
            node.communicate(timeout=PATIENCE_S)
            self.assertEqual(node.returncode, 0)
            self.assertFalse(node.socket.exists())

    def test_an_interrupted_node_does_not_wait_for_its_pool(self):
        node = self.start_program("node", "--listen", self.folder / "n.sock", "--state", self.folder / "n.state",
                                  "--pool-bytes", "4GiB")
        self.assertTrue(wait_until((self.folder / "n.state").exists))
        node.send_signal(signal.SIGINT)
        _, errors = node.communicate(timeout=PATIENCE_S)
        self.assertIn(node.returncode, (0, 1), errors)
        self.assertFalse((self.folder / "n.sock").exists())


if __name__ == "__main__":
    unittest.main()
