"""A node that is killed, stopped or started again in the middle of a replay, and a replay that is interrupted."""

import json
import os
import random
import signal
import time
import unittest

from program import PATIENCE_S, Case, processes_naming, wait_until

LEASE_MS = 300
NODE = ("--page-bytes", "4096", "--set", f"node.lease_ms={LEASE_MS}", "--set", "node.reuse_ms=20")


class FaultsTest(Case):
    def start_replay(self, node, requests):
        return self.start_program("replay", "generate", "--requests", requests, "--page-bytes", "4096",
                                  "--local-pages", "100", "--node", node.socket, "--json", "-")

    def wait_for_puts(self, node, puts):
        self.assertTrue(wait_until(lambda: (self.status(node) or {"puts": 0})["puts"] >= puts))

    def result_of(self, replay):
        output, errors = replay.communicate(timeout=PATIENCE_S)
        self.assertEqual(replay.returncode, 0, errors)
        answer = json.loads(output)
        self.assertEqual((answer["wrong_bytes"], answer["local_wrong_bytes"]), (0, 0))
        self.assertEqual(answer["deadlines"]["missed"], 0, answer["deadlines"])
        demanded = answer["local_hits"] + answer["verdicts"]["ready"] + answer["verdicts"]["recompute"]
        self.assertEqual(demanded, answer["pages_demanded"])
        return answer

    def test_killed(self):
        node = self.start_node(*NODE)
        replay = self.start_replay(node, 20_000)
        self.wait_for_puts(node, 2_000)
        node.kill()
        answer = self.result_of(replay)
        self.assertGreater(answer["verdicts"]["recompute_by_reason"]["unreachable"], 0)
        self.assertGreater(answer["puts"]["not_acknowledged"], 0)

    def test_stopped_and_continued(self):
        node = self.start_node(*NODE)
        replay = self.start_replay(node, 20_000)
        self.wait_for_puts(node, 2_000)
        before = self.status(node)["puts"]
        node.send_signal(signal.SIGSTOP)
        time.sleep(3 * LEASE_MS / 1000)  # this long is the fault
        node.send_signal(signal.SIGCONT)
        self.result_of(replay)
        self.assertGreater(self.status(node)["puts"], before + 1_000)

    def test_stopped_for_good(self):
        node = self.start_node(*NODE)
        replay = self.start_replay(node, 20_000)
        self.wait_for_puts(node, 2_000)
        node.send_signal(signal.SIGSTOP)
        answer = self.result_of(replay)
        self.assertGreater(answer["verdicts"]["recompute_by_reason"]["unreachable"], 0)

    def test_killed_and_started_again(self):
        node = self.start_node(*NODE)
        replay = self.start_replay(node, 60_000)
        self.wait_for_puts(node, 2_000)
        node.kill()
        node.wait()
        node = self.start_node(*NODE)
        answer = self.result_of(replay)  # it ends by itself
        self.assertGreater(answer["puts"]["not_acknowledged"], 0)
        self.assertGreater(self.status(node)["puts"], 2_000)  # it went on with the second run
        self.assertGreater(answer["verdicts"]["ready"], 0)

    def test_an_interrupt_at_any_time_leaves_nothing(self):
        seed = int(os.environ.get("FARPAGE_SEED", random.SystemRandom().randrange(1_000_000)))
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
