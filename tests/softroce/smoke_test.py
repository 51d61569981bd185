#!/usr/bin/env python3
"""The machine has all that tests rely on: devices, rdma_cm, reads and writes, a cable to spoil."""

import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "bench/scripts"))

import peer_perftest
from measure import Failure, run, running

BESIDE = peer_perftest.Path("rxe1", "rxe1", "10.8.0.1")
ACROSS = peer_perftest.Path("rxe0", "rxe2", "10.9.0.2")
PAGE_BYTES = 65536
PAGES = 100
PING_BYTES = 20_000


def crossed(device):
    """Bytes that came out of this end of a cable."""
    return int(pathlib.Path(f"/sys/class/net/{device}/statistics/rx_bytes").read_text())


class SmokeTest(unittest.TestCase):
    def rping(self, server, client):
        """So many bytes there and back, twice."""
        options = ["-C", "2", "-S", str(PING_BYTES)]
        with running(["rping", "-s", "-a", server, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            for _ in range(100):  # until the server listens
                try:
                    return run(["rping", "-c", "-a", server, "-I", client, *options], 30)
                except Failure as failure:
                    refused = failure
        raise refused

    def test_three_devices(self):
        self.assertEqual(re.findall(r"rxe\d", run(["ibv_devices"])), ["rxe0", "rxe1", "rxe2"])

    def test_rdma_cm_on_one_device(self):
        self.rping("10.8.0.1", "10.8.0.1")

    def test_rdma_cm_across_the_cable(self):
        before = crossed("v0"), crossed("w0")
        self.rping("10.9.0.2", "10.9.0.1")
        for device, count in zip(("v0", "w0"), before):
            self.assertGreater(crossed(device) - count, 2 * PING_BYTES, device)

    def test_reads_on_one_device_stay_there(self):
        before = crossed("v1")
        self.assertGreater(peer_perftest.read_p50_us(BESIDE, PAGE_BYTES, PAGES), 0)
        self.assertLess(crossed("v1") - before, PAGE_BYTES)

    def test_reads_across_the_cable(self):
        before = crossed("v0")
        self.assertGreater(peer_perftest.read_bytes_per_s(ACROSS, PAGE_BYTES, PAGES, 16), 0)
        self.assertGreater(crossed("v0") - before, PAGES * PAGE_BYTES)

    def test_writes_across_the_cable(self):
        before = crossed("w0")
        self.assertGreater(peer_perftest.write_bytes_per_s(ACROSS, PAGE_BYTES, PAGES, 16, 4), 0)
        self.assertGreater(crossed("w0") - before, PAGES * PAGE_BYTES)

    def test_a_slow_cable(self):
        delay_ms = 20
        run(["tc", "qdisc", "add", "dev", "v0", "root", "netem", "delay", f"{delay_ms}ms"])
        try:
            self.assertGreater(peer_perftest.read_p50_us(ACROSS, 4096, 20), delay_ms * 1e3)
        finally:
            run(["tc", "qdisc", "del", "dev", "v0", "root"])


if __name__ == "__main__":
    unittest.main()
