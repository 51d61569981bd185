#!/usr/bin/env python3
"""A cable between a client and its node that loses packets, delays them, or is pulled, and a client beside it that notices nothing."""

import contextlib
import json
import pathlib
import subprocess
import unittest

from verbs_case import PACE, VerbsCase, over
from faults import Steady

ENDS = ("v0", "w0")  # of the cable; rxe0 is on v0, rxe2 on w0


def call(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def bad_cable(*what):
    for end in ENDS:
        call("tc", "qdisc", "replace", "dev", end, "root", "netem", "limit", "100000", *what)
    try:
        yield
    finally:
        for end in ENDS:
            call("tc", "qdisc", "del", "dev", end, "root")


def count(end, counter):
    return json.loads(call("tc", "-s", "-j", "qdisc", "show", "dev", end))[0][counter]


class CableCase(VerbsCase):
    node_place = over("rxe2")
    client_place = over("rxe0")

    def start(self):
        node = self.start_node(*PACE.node())
        self.beside = self.start_beside(node)
        self.replay = Steady(self, node.address, pace=PACE)
        self.beside.wait_until_warm()
        self.replay.wait_until_warm()

    def start_beside(self, node):
        """A client of the same node, on its own device, whose traffic with itself does not reach the cable."""
        return Steady(self, node.address, pace=PACE, place=self.node_place)

    def finish(self):
        print(f"back after {self.replay.wait_until_back():.1f} s", flush=True)
        self.replay.result()
        untouched = self.beside.result()["verdicts"]
        self.assertEqual(untouched["recompute"], untouched["recompute_by_reason"]["miss"])


class BadCableTest(CableCase):
    def assert_survived(self, pages, counter, *what):
        self.start()
        with bad_cable(*what):
            print(f"{' '.join(what)}: {pages} pages are ready after {self.replay.wait_for('ready', pages):.1f} s", flush=True)
            for end in ENDS:
                self.assertGreater(count(end, counter), 5, end)
        self.finish()

    def test_one_packet_in_a_hundred_is_lost(self):
        self.assert_survived(500, "drops", "loss", "1%")

    def test_one_packet_in_ten_is_lost(self):
        self.assert_survived(100, "drops", "loss", "10%")

    def test_a_delay(self):
        self.assert_survived(50, "packets", "delay", "50ms")


class PulledCableTest(CableCase):
    def start_beside(self, node):
        """On another device, for one without a link does not even reach itself."""
        beside = over("rxe1")
        return Steady(self, self.start_node(*PACE.node(), name="beside", place=beside).address, pace=PACE, place=beside)

    def assert_survived(self, end, other):
        self.start()
        call("ip", "link", "set", end, "down")
        try:
            self.replay.wait_for("stalled", 1)
        finally:
            call("ip", "link", "set", end, "up")
        self.finish()

    def test_the_node_s_end_is_pulled(self):
        self.assert_survived("w0", "v0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
