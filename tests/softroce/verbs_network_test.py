#!/usr/bin/env python3
"""A client's cable loses packets, delays them or is pulled; a client beside it notices nothing."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import time
import unittest

from verbs_case import PACE, VerbsCase, connections, over
from counts import Counts
from faults import Steady
from program import wait_until

CLIENT_END, NODE_END = ENDS = ("v0", "w0")  # of the cable; rxe0 is on v0, rxe2 on w0
PORTS = pathlib.Path("/sys/class/infiniband")
INTERFACES = pathlib.Path("/sys/class/net")
IFF_UP = 1  # netdevice(7)
USUAL_MTU, JUMBO_MTU = 1500, 9000
# Beyond 0.26 s connections end, and a message without a link then breaks rdma_cm for good.
PULLED_S = 0.1


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


def send_frame(end):
    """To everybody, of a protocol that nobody knows (IEEE's for local experiments)."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((end, 0))
        raw.send(b"\xff" * 6 + b"\x02" + b"\0" * 5 + b"\x88\xb5" + b"\0" * 46)


def port_state(device):
    return (PORTS / device / "ports/1/state").read_text().split()[1]


def set_up(end, is_up):
    """At once, where a program would first have to be started."""
    flags = INTERFACES / end / "flags"
    others = int(flags.read_text(), 16) & ~IFF_UP
    flags.write_text(hex(others | (IFF_UP if is_up else 0)))


def packets_arrived(end):
    return int((INTERFACES / end / "statistics/rx_packets").read_text())


def has_address(device):
    with contextlib.suppress(OSError):
        return (PORTS / device / "ports/1/gid_attrs/types/1").read_text() != ""
    return False


def make_anew(device, end):
    """Replaces the device by a new one. No connection may be open on it."""
    if not wait_until(lambda: not connections(device)):
        raise AssertionError(f"{device} is in use")
    call("rdma", "link", "del", device)
    call("rdma", "link", "add", device, "type", "rxe", "netdev", end)
    if not wait_until(lambda: port_state(device) == "ACTIVE" and has_address(device)):
        raise AssertionError(f"{device} does not come back")


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
        """A client on the device of the node itself, so that its traffic takes no cable."""
        return Steady(self, node.address, pace=PACE, place=self.node_place)

    def finish(self):
        print(f"back after {self.replay.wait_until_back():.1f} s", flush=True)
        self.replay.result()
        self.assert_untouched(self.beside)


class BadCableTest(CableCase):
    def ready_within(self, most_s):
        """How many pages so far, at the least."""
        buckets = [(re.fullmatch(r'farpage_client_page_seconds_bucket\{verdict="ready",le="(\d\S*)"\}', sample), count)
                   for sample, count in self.replay.values().items()]
        return max(count for found, count in buckets if found and float(found.group(1)) <= most_s)

    def assert_survived(self, pages, counter, *what, least_s=0):
        """Once those that were under way have come, no page takes less than `least_s`."""
        self.start()
        with bad_cable(*what):
            if least_s:
                self.replay.wait_for("ready", 5)
                soon = self.ready_within(least_s)
            print(f"{' '.join(what)}: {pages} pages are ready after {self.replay.wait_for('ready', pages):.1f} s", flush=True)
            for end in ENDS:
                # Wait for a condition: how many packets are lost at one moment is chance.
                self.assertTrue(wait_until(lambda: count(end, counter) > 5, seconds=60), (end, count(end, counter)))
            if least_s:
                self.assertEqual(self.ready_within(least_s), soon)
        self.finish()

    def test_one_packet_in_a_hundred_is_lost(self):
        self.assert_survived(500, "drops", "loss", "1%")

    def test_one_packet_in_ten_is_lost(self):
        self.assert_survived(100, "drops", "loss", "10%")

    def test_silence(self):
        self.start()
        with bad_cable("loss", "100%"):
            self.replay.wait_for("stalled", 2)
            self.assertGreater(count(CLIENT_END, "drops"), 0)
            # A node that hears nothing may have nothing to say.
            send_frame(NODE_END)
            self.assertGreater(count(NODE_END, "drops"), 0)
        self.finish()

    def test_a_delay(self):
        delay_s = 0.05  # each way
        self.assert_survived(50, "packets", "delay", f"{1000 * delay_s:g}ms", least_s=2 * delay_s)


class PulledCableTest(CableCase):
    def start_beside(self, node):
        """On another device, for one without a link does not even reach itself."""
        beside = over("rxe1")
        return Steady(self, self.start_node(*PACE.node(), name="beside", place=beside).address, pace=PACE, place=beside)

    @contextlib.contextmanager
    def pulled(self, end):
        set_up(end, False)
        begin = time.monotonic()
        try:
            self.assertTrue(wait_until(lambda: port_state("rxe0") == "DOWN"))
            yield
        finally:
            set_up(end, True)
            print(f"pulled for {time.monotonic() - begin:.2f} s", flush=True)

    def test_the_node_s_end(self):
        self.start()
        with self.pulled("w0"):
            arrived = packets_arrived("v0")
            time.sleep(PULLED_S)
            self.assertEqual(packets_arrived("v0"), arrived)
        self.finish()

    def test_the_client_s_end(self):
        # Its device knows at once, and the connections end. Soft-RoCE's message to a peer without a
        # link breaks its connection manager for good, so nothing comes back before the device has
        # been made anew.
        self.addCleanup(make_anew, "rxe0", "v0")  # after its processes have ended
        self.start()
        with self.pulled("v0"):
            given_up = lambda counts: counts["stalled"] + counts["unreachable"]
            self.assertTrue(wait_until(lambda: given_up(self.replay.metrics()) > 1))
        self.replay.result()
        self.assertLess(self.replay.process.said.count("warning"), 20)  # not one for each attempt
        self.assert_untouched(self.beside)


class MtuTest(Counts, CableCase):
    """The connecting side decides on the packets' size.

    A node refuses, with a sentence, if its network device would drop them.
    """

    def with_mtu(self, end, mtu):
        self.addCleanup(call, "ip", "link", "set", end, "mtu", str(USUAL_MTU))
        call("ip", "link", "set", end, "mtu", str(mtu))

    def counts_with(self, end, mtu):
        self.with_mtu(end, mtu)
        counts = self.counts("--node", self.node.address, requests=6, local_pages=0)["verdicts"]
        call("ip", "link", "set", end, "mtu", str(USUAL_MTU))
        return counts

    def test_verdicts_come_in_time(self):
        self.node = self.start_node(*PACE.node())
        usual = self.counts_with("v0", USUAL_MTU)
        self.assertGreater(usual["ready"], 0)
        self.assertEqual(self.counts_with("w0", JUMBO_MTU), usual)
        self.with_mtu("v0", JUMBO_MTU)
        result = self.run_program("replay", "generate", "--requests", 2, "--page-bytes", 4096, "--node", self.node.address)
        self.assert_fails(result, 1, "sends packets of 4096 bytes, and the node's at 10.9.0.2 takes 1024 at most", "the same MTU")
        self.assertGreater(self.status(self.node)["ports"][0]["refused"], 0)
        self.assertEqual(self.counts_with("v0", USUAL_MTU), usual)
        self.node.terminate()
        _, said = self.node.communicate(timeout=30)
        self.assertIn("its RDMA port sends packets of 4096 bytes, and rxe2 at 10.9.0.2 here takes 1024 at most", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
