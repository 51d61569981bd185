"""Backends for RDMA where there is no RDMA device, or where the program was built without them."""

import pathlib
import unittest

from program import Case

DEVICES = pathlib.Path("/sys/class/infiniband")
BACKENDS = ("verbs",)


class NoDeviceTest(Case):
    def commands(self, backend):
        """Each with how it begins where it fails."""
        yield "", ("node", "--listen", self.folder / "n.sock", "--state", self.folder / "n.state", "--pool-bytes", "16MiB",
                   "--backend", backend)
        client = ("generate", "--requests", 2, "--page-bytes", 4096, "--backend", backend)
        yield "the memory node did not start: ", ("replay", *client, "--pool-bytes", "16MiB")
        yield "", ("replay", *client, "--node", self.start_node(name=backend).address)

    def test_it_says_so(self):
        built = self.run_program("node", "--help").stdout
        for backend in BACKENDS:
            for begin, command in self.commands(backend):
                result = self.run_program(*command)
                if backend not in built:
                    self.assert_fails(result, 2, f"built without the backend '{backend}'", f"-DFARPAGE_{backend.upper()}=ON")
                elif DEVICES.is_dir() and any(DEVICES.iterdir()):
                    print(f"not tested: this host has a device for {backend}")
                else:
                    self.assert_fails(result, 1, f"farpage: {begin}this host has no RDMA device that can be used",
                                      "`farpage doctor` says what is missing", "--backend tcp needs none")
        self.assertFalse((self.folder / "n.state").exists(), "no epoch is spent")
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
