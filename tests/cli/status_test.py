"""farpage status: once, and again and again."""

import json
import os
import pty
import select
import signal
import subprocess
import time
import unittest

from program import PATIENCE_S, PROGRAM, Case, stop

NODE = ("--page-bytes", "4096", "--set", "node.lease_ms=1000")


class StatusTest(Case):
    def replay(self, node, requests=200):
        result = self.run_program("replay", "generate", "--requests", requests, "--page-bytes", "4096", "--node",
                                  node.socket, "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def watch(self, node, *arguments):
        return self.start_program("status", "--node", node.socket, "--watch", *arguments)

    def next_object(self, watch, condition=lambda answer: True):
        """The next line that holds such an object."""
        for line in watch.stdout:
            answer = json.loads(line)
            if condition(answer):
                return answer
        self.fail("the watch has ended: " + watch.stderr.read())

    def interrupt(self, watch):
        watch.send_signal(signal.SIGINT)
        _, errors = watch.communicate(timeout=PATIENCE_S)
        self.assertEqual((watch.returncode, errors), (0, ""))

    def test_once(self):
        node = self.start_node(*NODE)
        answer = self.replay(node)
        text = self.run_program("status", "--node", node.socket).stdout
        ready, missed = answer["verdicts"]["ready"], answer["verdicts"]["recompute_by_reason"]["miss"]
        self.assertGreater(ready, 0)
        self.assertRegex(text, rf"verdicts +{ready + missed} pages in \d+ fetches, as the clients tell\n")
        share = 100 * ready / (ready + missed)
        self.assertRegex(text, rf"  ready +{ready} \({share:.2f}%\), ")
        self.assertRegex(text, rf"  recompute: miss +{missed} \({100 - share:.2f}%\)\n")
        self.assertIn("read one-sided: the node does not see them; clients report ", text)
        self.assertIn("clients                  0\n", text)
        self.assertNotIn("/s", text)
        self.assertIsNone(self.status(node)["traffic"])
        self.assertEqual(self.status(node)["ports"], [])
        self.assertNotIn("per_second", self.status(node))

    def test_a_clients_configuration_of_a_fleet_does_for_it(self):
        node = self.start_node(*NODE)
        for setting in ("etcd.endpoints=http://127.0.0.1:1", f"cluster.nodes=a={self.folder}/a.sock,b={self.folder}/b.sock"):
            self.assertIsNotNone(self.status(node, "--set", setting), setting)
        self.assert_fails(self.run_program("status", "--node", node.address, "--set", "etcd.no_such_key=1"), 2, "no_such_key")

    def test_json_a_line_with_rates(self):
        node = self.start_node(*NODE)
        watch = self.watch(node, "--json", "-")
        first = self.next_object(watch)
        self.assertNotIn("per_second", first)
        self.assertEqual(first["verdicts"]["ready"], 0)
        self.replay(node)
        busy = self.next_object(watch, lambda answer: answer["verdicts"]["ready"] > 0)
        self.assertGreater(busy["puts"], 0)
        self.assertAlmostEqual(busy["per_second"]["seconds"], 1, delta=0.9)
        # A client tells its verdicts in its own time: they may come a line after its puts.
        rates = ("puts", "put_bytes", "ready")
        idle = self.next_object(watch, lambda answer: all(answer["per_second"][name] == 0 for name in rates))
        self.assertGreaterEqual(idle["verdicts"]["ready"], busy["verdicts"]["ready"])
        self.interrupt(watch)

    def test_rates_are_differences(self):
        node = self.start_node(*NODE)
        watch = self.watch(node, "--json", "-")
        looks = [self.next_object(watch)]
        replay = self.start_program("replay", "generate", "--requests", "200", "--page-bytes", "4096", "--node",
                                    node.socket)
        while len(looks) < 4 or looks[-1]["verdicts"]["ready"] == 0:
            looks.append(self.next_object(watch))
        for before, now in zip(looks, looks[1:]):
            seconds = now["uptime_s"] - before["uptime_s"]
            self.assertAlmostEqual(now["per_second"]["seconds"], seconds, places=4)
            for name in ("puts", "put_bytes", "evictions", "removes"):
                self.assertAlmostEqual(now["per_second"][name] * seconds, now[name] - before[name], delta=1 + 1e-5 * now[name])
            told = now["verdicts"]["ready"] - before["verdicts"]["ready"]
            self.assertAlmostEqual(now["per_second"]["ready"] * seconds, told, delta=1)
        replay.communicate(timeout=PATIENCE_S)
        self.interrupt(watch)

    def test_rates_of_pushes_are_differences(self):
        node = self.start_node(*NODE)
        watch = self.watch(node, "--json", "-")
        looks = [self.next_object(watch)]
        bench = self.start_program("bench", "push", "--page-bytes", "4KiB", "--pool-bytes", "1MiB", "--seconds", "2.5",
                                   "--node", node.socket)
        while len(looks) < 4 or looks[-1]["pushes"]["pages"] == 0:
            looks.append(self.next_object(watch))
        for before, now in zip(looks, looks[1:]):
            rates = now["per_second"]
            for name, rate in (("pages", "pushed"), ("bytes", "pushed_bytes")):
                moved = now["pushes"][name] - before["pushes"][name]
                self.assertAlmostEqual(rates[rate] * rates["seconds"], moved, delta=1 + 1e-5 * now["pushes"][name])
        self.assertIn(1, {look["pushes"]["lanes"] for look in looks})
        bench.communicate(timeout=PATIENCE_S)
        self.interrupt(watch)

    def test_blocks_follow_one_another(self):
        node = self.start_node(*NODE)
        watch = self.watch(node)
        lines = []
        while sum(line.startswith("traffic") for line in lines) < 2:
            lines.append(watch.stdout.readline())
        self.interrupt(watch)
        text = "".join(lines)
        self.assertNotIn("\x1b", text)
        first, second = text.split("\n\n")
        self.assertTrue(first.startswith(f"node                     {node.socket}\n"), first)
        self.assertNotIn("/s", first)
        self.assertRegex(second, r"puts +0 \(0 B\), 0 refused, 0\.0/s, 0 B/s\n")
        self.assertRegex(second, r"evictions +0, 0\.0/s\n")

    def test_a_terminal_is_drawn_anew(self):
        node = self.start_node(*NODE)
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        watch = subprocess.Popen([PROGRAM, "status", "--node", node.socket, "--watch"], stdout=follower,
                                 stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, watch)
        os.close(follower)
        text, end = "", time.monotonic() + PATIENCE_S
        while text.count("traffic") < 2 and time.monotonic() < end:
            if select.select([leader], [], [], 1)[0]:
                text += os.read(leader, 65536).decode()
        self.interrupt(watch)
        blocks = text.split("\x1b[H\x1b[2J")
        self.assertEqual(blocks[0], "")
        self.assertGreaterEqual(len(blocks), 3)
        for block in blocks[1:3]:
            self.assertTrue(block.startswith("node "), block)

    def test_a_node_that_goes_away_is_said_and_waited_for(self):
        node = self.start_node(*NODE)
        watch = self.watch(node, "--json", "-")
        before = self.next_object(watch)
        node.terminate()
        node.communicate()
        lost = self.next_object(watch, lambda answer: "error" in answer)
        self.assertIn(str(node.socket), lost["error"])
        node = self.start_node(*NODE)
        back = self.next_object(watch)  # said once: the next line is the node's again
        self.assertEqual(back["epoch"], before["epoch"] + 1)
        self.assertNotIn("per_second", back, "two runs have no rates between them")
        self.interrupt(watch)

    def test_text_says_so_too(self):
        node = self.start_node(*NODE)
        watch = self.watch(node)
        for line in watch.stdout:
            if line.startswith("traffic"):
                break
        node.kill()
        node.wait()
        seen = ""
        for line in watch.stdout:
            seen += line
            if "waiting for the node" in line:
                break
        self.assertIn("no memory node answers", seen)
        self.start_node(*NODE)
        for line in watch.stdout:
            if line.startswith("epoch"):
                break
        self.assertRegex(line, "epoch +2\n")
        self.interrupt(watch)

    def test_a_stopped_node_does_not_hold_an_interrupt(self):
        node = self.start_node(*NODE)
        watch = self.watch(node, "--json", "-")
        self.next_object(watch)
        stop(node.pid)
        begin = time.monotonic()
        lost = self.next_object(watch, lambda answer: "error" in answer)
        self.assertIn("is it stopped", lost["error"])
        self.assertLess(time.monotonic() - begin, 60)
        self.interrupt(watch)

    def test_a_reader_that_goes_away_ends_it(self):
        node = self.start_node(*NODE)
        watch = self.watch(node, "--json", "-")
        self.next_object(watch)
        watch.stdout.close()
        self.assertEqual(watch.wait(timeout=PATIENCE_S), 1)
        self.assertIn("standard output", watch.stderr.read())
        watch.stdout = subprocess.DEVNULL and open(os.devnull)  # for the clean-up

    def test_bad_input(self):
        node = self.start_node(*NODE)
        for seconds in ("0", "-1", "1.5", "soon", "86401"):
            self.assert_fails(self.run_program("status", "--node", node.socket, "--watch", f"--interval-s={seconds}"),
                              2, "--interval-s")
        self.assert_fails(self.run_program("status", "--node", node.socket, "--interval-s", "2"), 2, "--watch")
        self.assert_fails(self.run_program("status", "--node", node.socket, "--watch", "--json", "x.json"), 2,
                          "--json -")
        self.assertFalse((self.folder / "x.json").exists())
        self.assert_fails(self.run_program("status", "--watch"), 2, "--node")
        none = self.folder / "none.sock"
        self.assert_fails(self.run_program("status", "--node", none, "--watch"), 1, str(none))

    def test_a_file(self):
        node = self.start_node(*NODE)
        result = self.run_program("status", "--node", node.socket, "--json", "status.json")
        self.assertIn("slots", result.stdout)
        self.assertEqual(json.loads((self.folder / "status.json").read_text())["clients"], 0)


if __name__ == "__main__":
    unittest.main()
