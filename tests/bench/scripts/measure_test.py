"""The servers of bench/, with a real node (FARPAGE) and stand-ins: they serve, and always end."""

import os
import pathlib
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from recording import SOURCE

import idle_cost
import measure
import tls_cost

PROGRAM = os.environ["FARPAGE"]
LISTENER = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); s.accept(); s.accept()"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fp")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class RunTest(unittest.TestCase):
    def test_a_command_that_fails_is_named_with_its_last_words(self):
        with self.assertRaisesRegex(measure.Failure, "bench fetch.*carrier"):
            measure.bench(PROGRAM, "fetch", "--backend", "carrier")

    def test_a_command_that_does_not_end(self):
        with self.assertRaisesRegex(measure.Failure, "did not end"):
            measure.run(["tail", "-f", "/dev/null"], timeout_s=0.1)


class ServingTest(unittest.TestCase):
    def test_it_is_left_alone_until_the_block_begins_and_ends_with_it(self):
        port = measure.free_port()
        self.assertFalse(measure.is_listening(port))
        with self.assertRaisesRegex(ValueError, "mine"):
            with measure.serving([sys.executable, "-c", LISTENER, port], port) as server:
                self.assertTrue(measure.is_listening(port))
                for _ in range(2):  # it takes two connections: nobody has used one up
                    socket.create_connection(("127.0.0.1", port)).close()
                raise ValueError("mine")
        self.assertIsNotNone(server.returncode)
        self.assertFalse(measure.is_listening(port))

    def test_one_that_ends_at_once(self):
        with self.assertRaisesRegex(measure.Failure, "does not listen"):
            with measure.serving(["false"], measure.free_port()):
                self.fail("it never listened")

    def test_it_ends_with_the_program_that_started_it(self):
        script = ("import sys; sys.path.insert(0, sys.argv[1]); import measure, os, signal\n"
                  "with measure.running(['tail', '-f', '/dev/null']) as process:\n"
                  "    print(process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n")
        killed = subprocess.run([sys.executable, "-B", "-c", script, str(SOURCE / "bench/scripts")], capture_output=True, text=True,
                                check=False)
        try:
            server = os.pidfd_open(int(killed.stdout))
        except ProcessLookupError:
            return
        self.addCleanup(os.close, server)
        self.assertTrue(select.select([server], [], [], 30)[0])


class NodeTest(Case):
    def test_memory_and_idle_clients(self):
        with mock.patch.object(idle_cost, "CLIENTS", 100):
            result = idle_cost.memory(PROGRAM, "tcp", self.folder)
        self.assertEqual(result["clients"], 100)
        self.assertGreater(result["before"]["Rss"], 256 << 20)  # its pool
        self.assertIn("before and after 100 idle clients", idle_cost.memory_sentence(result))
        if not os.environ.get("FARPAGE_SANITIZE"):  # a sanitizer keeps what is freed
            self.assertLess(result["rss_bytes_per_client"], idle_cost.MOST_BYTES_PER_CLIENT)

    def test_a_busy_client_beside_idle_ones(self):
        with mock.patch.multiple(idle_cost, CLIENTS=400, SETTLE_S=1):
            with idle_cost.idle_node(PROGRAM, "shm", self.folder) as (node, process):
                cost = idle_cost.BesideIdle(PROGRAM, "shm", node, process, seconds=2, rest_ms=idle_cost.NO_REST_MS)
                self.assertGreater(cost.with_clients(), 0)
                self.assertGreater(cost.idle_share, 0)  # some 400 renewals
                self.assertGreater(cost.node_share, 0)
                self.assertRegex(cost.sentence(), r"idle clients takes \d+\.\d% of a core, the node \d+\.\d%")
                self.assertGreater(cost.without(), 0)
            self.assertIsNotNone(process.returncode)

    def test_clients_that_the_node_refuses(self):
        with measure.memory_node(PROGRAM, "shm", self.folder, "--pool-bytes", "64MiB", "--set", "node.max_clients=3") as (node, _):
            with self.assertRaisesRegex(measure.Failure, "did not connect.*max_clients"):
                with idle_cost.idle_clients(PROGRAM, "shm", node):
                    self.fail("1,000 clients on a node of three")

    def test_a_node_that_does_not_start_says_why(self):
        with self.assertRaisesRegex(measure.Failure, "did not start: .*pool_byte"):
            with measure.memory_node(PROGRAM, "shm", self.folder, "--set", "node.pool_byte=5"):
                self.fail("there is no such key")


class CertificateTest(Case):
    def test_the_node_is_who_its_address_says(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not there")
        tls_cost.make_certificates(self.folder)
        verified = subprocess.run(["openssl", "verify", "-CAfile", f"{self.folder}/ca.pem", "-verify_ip", "127.0.0.1",
                                   f"{self.folder}/node.pem"], capture_output=True, text=True, check=False)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        other = subprocess.run(["openssl", "verify", "-CAfile", f"{self.folder}/ca.pem", "-verify_ip", "127.0.0.2",
                                f"{self.folder}/node.pem"], capture_output=True, check=False)
        self.assertNotEqual(other.returncode, 0)


class RefusalTest(Case):
    def peers(self, *arguments, tools=()):
        bin_folder = pathlib.Path(self.folder) / "bin"
        bin_folder.mkdir()
        for tool in tools:
            (bin_folder / tool).symlink_to("/bin/true")
        return subprocess.run([sys.executable, "-B", SOURCE / "bench/scripts/peers.py", *arguments], capture_output=True, text=True,
                              env={"PATH": str(bin_folder)}, check=False)

    def test_missing_programs_are_named_with_their_packages(self):
        refused = self.peers("--farpage", PROGRAM, tools=("iperf3", "redis-cli"))
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn("redis-server, redis-benchmark, ucx_perftest not found", refused.stderr)
        self.assertIn("apt-get install --no-remove redis-server redis-tools ucx-utils\n", refused.stderr)

    def test_no_farpage(self):
        refused = self.peers("--farpage", f"{self.folder}/farpage")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("build the release preset", refused.stderr)

    def test_wrong_arguments(self):
        refused = self.peers("--rounds", "0")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("rounds and seconds", refused.stderr)


if __name__ == "__main__":
    unittest.main()
