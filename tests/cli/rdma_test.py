"""Backends for RDMA where there is no RDMA device, or where the program was built without them."""

import pathlib
import unittest

from program import Case, skip_or_fail

DEVICES = pathlib.Path("/sys/class/infiniband")
OPTIONAL = ("verbs", "ucx")


class RdmaCase(Case):
    def setUp(self):
        super().setUp()
        self.built = self.run_program("node", "--help").stdout

    def commands(self, backend):
        """Each with how it begins where it fails."""
        yield "", ("node", "--listen", self.folder / "n.sock", "--state", self.folder / "n.state", "--pool-bytes", "16MiB",
                   "--backend", backend)
        client = ("generate", "--requests", 2, "--page-bytes", 4096, "--backend", backend)
        yield "the memory node did not start: ", ("replay", *client, "--pool-bytes", "16MiB")
        yield "", ("replay", *client, "--node", self.start_node(name=backend).address)

    def assert_nothing_begun(self):
        self.assertFalse((self.folder / "n.state").exists(), "no epoch is spent")
        self.assert_nothing_left()


class NotBuiltTest(RdmaCase):
    def test_it_says_so(self):
        for backend in OPTIONAL:
            if backend in self.built:
                continue
            for _, command in self.commands(backend):
                self.assert_fails(self.run_program(*command), 2, f"built without the backend '{backend}'",
                                  f"-DFARPAGE_{backend.upper()}=ON")
        self.assert_nothing_begun()


class NoDeviceTest(RdmaCase):
    def test_it_says_so(self):
        if "verbs" not in self.built:
            return
        if DEVICES.is_dir() and any(DEVICES.iterdir()):
            skip_or_fail(self, "this host has a device for verbs, so what is said without one is not heard")
        for begin, command in self.commands("verbs"):
            self.assert_fails(self.run_program(*command), 1, f": {begin}this host has no RDMA device that can be used",
                              "`farpage doctor` says what is missing", "--backend tcp needs none")
        self.assert_nothing_begun()


if __name__ == "__main__":
    unittest.main()
