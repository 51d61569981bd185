"""Addresses where no memory node can listen, or none is found."""

import socket
import time
import unittest

from listening import Listening
from program import Case

CONNECT_MS = 1_000
PATIENT = ("--set", f"client.connect_ms={CONNECT_MS}")
MARGIN_S = 1  # for the program's own start and end on a busy machine


class NodeTest(Case):
    def run_node(self, listen, *arguments):
        return self.run_program("node", "--listen", listen, "--state", self.folder / "n.state", "--pool-bytes", "16MiB",
                                *arguments)

    def test_a_port_in_use(self):
        first = self.start_node(listen="tcp://127.0.0.1:0")
        result = self.run_node(first.address)
        self.assert_fails(result, 1, f"cannot listen on {first.address.removeprefix('tcp://')} (Address already in use)", "choose another port")
        self.assertIsNotNone(self.status(first), "the first one goes on")

    def test_a_name_that_does_not_resolve(self):
        result = self.run_node("tcp://no-such-host.invalid:0", "--set", "security.allow_anyone=true")
        self.assert_fails(result, 1, "the name 'no-such-host.invalid' does not resolve", "the address in numbers")

    def test_an_address_of_another_machine(self):
        result = self.run_node("tcp://192.0.2.1:0", "--set", "security.allow_anyone=true")
        self.assert_fails(result, 1, "cannot listen on 192.0.2.1:0", "choose an address of this machine")

    def test_a_backend_that_does_not_go_with_it(self):
        self.assert_fails(self.run_node("tcp://127.0.0.1:0", "--backend", "shm"), 2, "needs the path of a Unix socket",
                          "--backend tcp")
        self.assert_fails(self.run_node(self.folder / "n.sock", "--backend", "tcp"), 2,
                          "needs an address such as tcp://HOST:PORT", "--backend shm")


class ClientTest(Case):
    def assert_answered(self, address, within_s, *texts):
        """By status and by replay, within that time."""
        for command in (("status",), ("replay", "generate", "--requests", 2)):
            begin = time.monotonic()
            result = self.run_program(*command, "--node", address, *PATIENT)
            self.assertLess(time.monotonic() - begin, within_s, command)
            self.assert_fails(result, 1, *texts)

    def test_a_backend_that_does_not_go_with_it(self):
        for command in (("replay", "generate"), ("bench", "fetch"), ("bench", "idle")):
            result = self.run_program(*command, "--node", "tcp://127.0.0.1:1", "--backend", "shm")
            self.assert_fails(result, 2, "needs the path of a Unix socket", "--backend tcp")
            result = self.run_program(*command, "--node", self.folder / "n.sock", "--backend", "tcp")
            self.assert_fails(result, 2, "needs an address such as tcp://HOST:PORT", "--backend shm")

    def test_what_is_no_address(self):
        for text in ("tcp://127.0.0.1", "tcp://:7010", "tcp://::1:7010", "tcp://host:70000", "udp://host:7010"):
            for command in ("status", "replay"):
                self.assert_fails(self.run_program(command, "--node", text), 2, f"'{text}' is not an address",
                                  "tcp://HOST:PORT")

    def test_a_name_that_does_not_resolve(self):
        self.assert_answered("tcp://no-such-host.invalid:7010", CONNECT_MS / 1000 + MARGIN_S,
                             "the name 'no-such-host.invalid' does not resolve", "the address in numbers")

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
        self.assert_answered(address, CONNECT_MS / 1000 + MARGIN_S, f"no memory node answers at {address}",
                             "Connection refused", f"farpage node --listen {address}")

    def test_something_else_listens_and_is_silent(self):
        server = Listening(self, lambda connection: None)
        self.assert_answered(server.address, CONNECT_MS / 1000 + MARGIN_S, server.address, "does not answer",
                             "is it stopped, or does it want TLS")

    def test_something_else_listens_and_speaks(self):
        nonsense = Listening(self, lambda connection: connection.sendall(b"220 mail.example.org ESMTP\r\n" * 10))
        # No need to wait for the rest of it.
        self.assert_answered(nonsense.address, MARGIN_S, f"the process that listens at {nonsense.address} is not a memory node")

    def test_something_else_listens_and_hangs_up(self):
        server = Listening(self, lambda connection: connection.shutdown(socket.SHUT_RDWR))
        self.assert_answered(server.address, CONNECT_MS / 1000 + MARGIN_S, server.address, "closed the connection",
                             "does something else listen there")


if __name__ == "__main__":
    unittest.main()
