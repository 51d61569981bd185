"""The program over TCP, on this machine alone: right counts, faults, and unreachable addresses."""

import socket
import unittest

from counts import Counts
from faults import Faults
from production import ProductionTrace
from program import Case, skip_or_fail


def has_ipv6_loopback():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


class ProductionTest(ProductionTrace, Case):
    backend = "tcp"


class TcpFaultsTest(Faults, Case):
    listen = "tcp://127.0.0.1:0"


class CountsTest(Counts, Case):
    def test_they_are_those_of_shm(self):
        for local_pages in (0, 100):
            over_shm, over_tcp = (self.counts("--pool-bytes", "64MiB", "--backend", backend, local_pages=local_pages)
                                  for backend in ("shm", "tcp"))
            self.assertGreater(over_shm["verdicts"]["ready"], 1_000)
            self.assertEqual(over_tcp, over_shm)
        self.assert_nothing_left()

    def test_a_node_that_is_reached_by_any_of_its_names(self):
        node = self.start_node("--page-bytes", 4096, listen="tcp://localhost:0")
        port = node.address.rpartition(":")[2]
        self.assertRegex(node.address, r"^tcp://localhost:\d+$")
        self.assertEqual(self.counts("--node", f"tcp://localhost:{port}"), self.counts("--pool-bytes", "64MiB"))

    def test_ipv6(self):
        if not has_ipv6_loopback():
            skip_or_fail(self, "this machine has no IPv6 loopback address")
        expected = self.counts("--pool-bytes", "64MiB")
        node = self.start_node("--page-bytes", 4096, listen="tcp://[::1]:0")
        self.assertRegex(node.address, r"^tcp://\[::1\]:\d+$")
        self.assertEqual(self.counts("--node", node.address), expected)

    def test_all_addresses_of_both_kinds(self):
        if not has_ipv6_loopback():
            skip_or_fail(self, "this machine has no IPv6 loopback address")
        token = self.folder / "token"
        token.write_text("0123456789abcdef")
        token.chmod(0o600)
        node = self.start_node("--page-bytes", 4096, "--token-file", token, listen="tcp://[::]:0")
        port = node.address.rpartition(":")[2]
        for host in ("[::1]", "127.0.0.1", "localhost"):
            counts = self.counts("--node", f"tcp://{host}:{port}", "--token-file", token)
            self.assertGreater(counts["verdicts"]["ready"], 1_000)


if __name__ == "__main__":
    unittest.main()
