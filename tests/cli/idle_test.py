"""farpage bench idle: clients that stay on a node until they are let go."""

import signal
import subprocess
import unittest

from program import Case, wait_until


class IdleTest(Case):
    def start_connected(self, node, clients, *arguments):
        idle = self.start_program("bench", "idle", "--node", node.socket, "--clients", clients, *arguments,
                                  stdin=subprocess.PIPE)
        self.assertEqual(idle.stdout.readline(), "ready\n")
        return idle

    def start_idle(self, node, clients, *arguments):
        idle = self.start_connected(node, clients, *arguments)
        self.assertEqual(self.clients(node), clients)
        return idle

    def clients(self, node):
        return self.status(node)["clients"]

    def assert_all_gone(self, node):
        self.assertTrue(wait_until(lambda: self.clients(node) == 0))

    def test_they_stay_until_standard_input_ends(self):
        node = self.start_node()
        idle = self.start_idle(node, 5)
        idle.stdin.write("not the end\n")
        idle.stdin.flush()
        self.assertEqual(self.clients(node), 5)
        output, errors = idle.communicate(timeout=30)
        self.assertEqual((idle.returncode, output, errors), (0, "", ""))
        self.assert_all_gone(node)

    def test_they_stay_until_a_signal_comes(self):
        node = self.start_node()
        idle = self.start_idle(node, 2, "--set", "client.staging_bytes=64KiB")
        idle.send_signal(signal.SIGINT)
        self.assertEqual(idle.wait(timeout=30), 0)
        self.assert_all_gone(node)

    def test_those_whose_links_rest_leave_the_node_and_are_not_lost(self):
        node = self.start_node()
        idle = self.start_connected(node, 3, "--set", "client.rest_ms=1000")
        self.assert_all_gone(node)
        output, errors = idle.communicate(timeout=30)
        self.assertEqual((idle.returncode, output, errors), (0, "", ""))

    def test_a_node_that_ends_meanwhile(self):
        node = self.start_node("--set", "node.lease_ms=1000")
        idle = self.start_idle(node, 2)
        node.kill()
        node.wait()
        # By the time that another client gives up, the lease has ended.
        self.run_program("bench", "fetch", "--node", node.socket, "--set", "client.connect_ms=2000")
        _, errors = idle.communicate(timeout=30)
        self.assertEqual(idle.returncode, 1)
        self.assertIn("lost 2 of 2 clients", errors)

    def test_more_than_the_node_takes(self):
        node = self.start_node("--set", "node.max_clients=3")
        self.assert_fails(self.run_program("bench", "idle", "--node", node.socket, "--clients", 5), 1,
                          "client 4 of 5", "max_clients")

    def test_wrong_arguments(self):
        self.assert_fails(self.run_program("bench", "idle"), 2, "--node")
        self.assert_fails(self.run_program("bench", "idle", "--node", "x", "--clients", 0), 2, "choose 1 to")
        self.assert_fails(self.run_program("bench", "idle", "--node", "x", "--backend", "carrier"), 2, "carrier")
        self.assert_fails(self.run_program("bench", "idle", "--node", self.folder / "none.sock"), 1, "none.sock")


if __name__ == "__main__":
    unittest.main()
