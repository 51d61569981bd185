#!/usr/bin/env python3
"""Settings that do not fit together, and clients that vanish, harm no other client.

Each mistake in the settings has a clear sentence.
"""

import resource
import subprocess
import unittest

from verbs_case import PACE, SHM, TCP, VerbsCase, connections, over
from faults import Steady
from program import wait_until

LOCKED_BYTES = 64 << 10
CLIENTS = 64


class RefusalCase(VerbsCase):
    NODE = ("node", "--listen", "n.sock", "--state", "n.state", "--pool-bytes", "16MiB")
    REPLAY = ("replay", "generate", "--requests", 2, "--page-bytes", 4096)

    def assert_node_refuses(self, exit_code, *texts, **options):
        self.assert_fails(self.run_program(*self.NODE, **options), exit_code, *texts)

    def assert_client_refuses(self, *texts, node=None, **options):
        arguments = ("--node", node.address) if node else ("--pool-bytes", "16MiB")
        self.assert_fails(self.run_program(*self.REPLAY, *arguments, **options), 1, *texts)


class LockedMemoryTest(RefusalCase):
    SENTENCES = ("this process may lock 64 KiB of memory", "ulimit -l unlimited", "LimitMEMLOCK=infinity")
    limited = False

    def command(self, arguments, place):
        command = super().command(arguments, place)
        # A process with this capability has no such limit.
        return ["setpriv", "--bounding-set=-ipc_lock", *command] if self.limited else command

    def limit(self):
        self.limited = True
        return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (LOCKED_BYTES, LOCKED_BYTES))}

    def test_a_node(self):
        self.assert_node_refuses(1, *self.SENTENCES, **self.limit())

    def test_a_client(self):
        node = self.start_node(*PACE.node())
        self.assert_client_refuses(*self.SENTENCES, node=node, **self.limit())
        self.assertEqual(self.status(node)["clients"], 0)


class DevicesTest(RefusalCase):
    def test_one_that_is_not_there(self):
        node = self.start_node(*PACE.node())
        sentence = "there is no RDMA device rxe9; there are: rxe"
        self.assert_node_refuses(1, sentence, place=over("rxe9"))
        self.assert_client_refuses(sentence, node=node, place=over("rxe9"))
        self.assert_client_refuses(sentence, place=over("rxe9"))  # its own node says so

    def test_one_named_twice(self):
        node = self.start_node(*PACE.node())
        for devices in ("rxe0,rxe0", "rxe0,10.9.0.1", "rxe0:1,rxe0", "10.9.0.1,rxe0:1"):
            sentence = "rdma.devices names port 1 of the device rxe0 twice"
            self.assert_node_refuses(2, sentence, place=over(devices))
            self.assert_client_refuses(sentence, node=node, place=over(devices))

    def test_a_port(self):
        node = self.start_node(*PACE.node(), place=over("rxe0:1,rxe1:1"))
        result = self.run_program(*self.REPLAY, "--node", node.address, place=over("rxe0:1,rxe1:1"))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_port_that_is_none(self):
        self.assert_node_refuses(1, "there is no port 2 of the RDMA device rxe0: it has 1", place=over("rxe0:2"))
        for devices in ("rxe0:0", "rxe0:", "rxe0:one"):
            self.assert_node_refuses(2, f"rdma.devices names {devices}: a port", place=over(devices))

    def test_an_address_of_none(self):
        self.assert_node_refuses(1, "no RDMA device has the address 192.0.2.1", place=over("192.0.2.1"))


class OtherBackendTest(RefusalCase):
    def test_a_node_over_verbs(self):
        sentences = ("the node's pages travel over 'verbs'", "choose --backend verbs")
        self.assert_client_refuses(*sentences, node=self.start_node(*PACE.node()), place=SHM)
        node = self.start_node(*PACE.node(), name="reached-by-tcp", listen="tcp://127.0.0.1:0")
        self.assert_client_refuses(*sentences, node=node, place=TCP)

    def test_a_client_over_verbs(self):
        node = self.start_node(*PACE.node(), place=SHM)
        self.assert_client_refuses("the node's pages travel over 'shm'", "choose --backend shm", node=node)
        node = self.start_node(*PACE.node(), name="tcp", listen="tcp://127.0.0.1:0", place=TCP)
        self.assert_client_refuses("the node's pages travel over 'tcp'", "choose --backend tcp", node=node)


class VanishingTest(VerbsCase):
    def test_clients_that_are_killed(self):
        node = self.start_node(*PACE.node())
        beside = Steady(self, node.address, pace=PACE)
        beside.wait_until_warm()
        count = lambda: len(connections("rxe0"))
        clients_before, before = self.status(node)["clients"], count()
        idle = self.start_program("bench", "idle", "--node", node.address, "--clients", CLIENTS, stdin=subprocess.PIPE)
        self.assertEqual(idle.stdout.readline(), "ready\n")
        self.assertEqual(self.status(node)["clients"], clients_before + CLIENTS)
        self.assertGreaterEqual(count(), before + 2 * CLIENTS)
        idle.kill()
        self.assertTrue(wait_until(lambda: self.status(node)["clients"] == clients_before), self.status(node))
        self.assertTrue(wait_until(lambda: count() == before), (count(), before))
        beside.wait_for("ready", 100)
        self.assert_untouched(beside)


if __name__ == "__main__":
    unittest.main(verbosity=2)
