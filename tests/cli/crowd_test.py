"""Thousands of connections that say half a word and no more, while others are served."""

import contextlib
import os
import pathlib
import socket
import struct
import unittest

from certificates import Authority, client_arguments, node_arguments
from faults import NODE, Steady
from program import Case, wait_until

CONNECTIONS = 10_000
# Two batches are open at a time: more than the node keeps, fewer than a process may usually have.
BATCH = 400
MOST_STRANGERS = 512
# The node keeps 512 strangers: 1 KiB each, and about 55 KiB where TLS has begun. The bounds are
# twice that, because the allocator gives little of it back. All strangers at once would take 10 and
# 550 MiB.
MOST_GROWTH_BYTES = 4 << 20
MOST_GROWTH_TLS_BYTES = 64 << 20

HALF_A_GREETING = b"FPGN" + struct.pack("<II", 1, 1) + bytes(10)
HALF_A_TLS_HELLO = bytes.fromhex("160301020001000100") + bytes(10)


def resident_bytes(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


class CrowdTest(Case):
    def silent(self, address, greeting):
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=10)
        self.addCleanup(connection.close)
        with contextlib.suppress(ConnectionError):
            connection.sendall(greeting)
        return connection

    def serve_one(self, node, *client_options):
        """After which the node has all that it keeps for good."""
        result = self.run_program("replay", "generate", "--requests", 2, "--node", node.address, *client_options)
        self.assertEqual(result.returncode, 0, result.stderr)

    def assert_unimpressed(self, greeting, most_growth_bytes, node_options=(), client_options=()):
        node = self.start_node(*NODE, *node_options, listen="tcp://127.0.0.1:0")
        self.serve_one(node, *client_options)
        open_before = descriptors(node)
        replay = Steady(self, node.address, *client_options)
        replay.wait_for("ready", 500)
        memory_before, most_memory, most_open = resident_bytes(node), 0, 0
        batches = []
        for begin in range(0, CONNECTIONS, BATCH):
            batches.append([self.silent(node.address, greeting) for _ in range(BATCH)])
            if len(batches) > 2:
                for connection in batches.pop(0):
                    connection.close()
            most_memory, most_open = max(most_memory, resident_bytes(node)), max(most_open, descriptors(node))
            if begin == CONNECTIONS // 2:
                self.assertIsNotNone(self.status(node, *client_options), "one more is let in")
        print(f"{(most_memory - memory_before) >> 10} KiB more, {most_open - open_before} descriptors", flush=True)
        self.assertLess(most_open - open_before, MOST_STRANGERS + 20)
        if not os.environ.get("FARPAGE_SANITIZE"):  # a sanitizer keeps what is freed
            self.assertLess(most_memory - memory_before, most_growth_bytes)
        before = replay.metrics()
        self.assertEqual(before["stalled"] + before["unreachable"], 0)
        replay.wait_for("ready", 100)  # it has not ended before the crowd
        answer = replay.result()
        self.assertEqual(answer["verdicts"]["recompute"], answer["verdicts"]["recompute_by_reason"]["miss"])
        # No client closes those that are left: the node does.
        self.assertTrue(wait_until(lambda: descriptors(node) <= open_before), descriptors(node))

    def test_half_a_greeting(self):
        self.assert_unimpressed(HALF_A_GREETING, MOST_GROWTH_BYTES)

    def test_half_a_tls_handshake(self):
        authority = Authority(self.folder)
        self.assert_unimpressed(HALF_A_TLS_HELLO, MOST_GROWTH_TLS_BYTES, node_arguments(authority.issue("node")),
                                client_arguments(authority.file))

    def test_a_client_that_is_killed(self):
        node = self.start_node(*NODE, listen="tcp://127.0.0.1:0")
        connections = lambda: (self.status(node)["clients"], self.status(node)["traffic"][0]["connections"])
        self.serve_one(node)
        self.assertEqual(connections(), (0, 0))
        open_before = descriptors(node)
        replay = Steady(self, node.address)
        replay.wait_for("ready", 500)
        self.assertEqual(connections(), (1, 2))  # its lane's, and its staging's
        replay.process.kill()
        self.assertTrue(wait_until(lambda: connections() == (0, 0)), connections())
        self.assertTrue(wait_until(lambda: descriptors(node) <= open_before), descriptors(node))


if __name__ == "__main__":
    unittest.main()
