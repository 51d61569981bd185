"""A node and a client on two hosts, as far as one has them: network namespaces with a cable."""

import os
import time
import unittest

from counts import Counts
from faults import NODE, Faults, Steady
from namespaces import HOSTS, LongWay, Machine, join, require_namespaces
from program import Case, skip_or_fail

BACK_S = 2.5
# By now TCP sends again only every few seconds: who waits for it is not back in time.
SILENT_S = 3.5
DELAY_S = 0.005
TOKEN = "0123456789abcdef"


class NetworkCase(Case):
    """Nodes run on `there`, all else on `here`, unless a test says `place`."""

    @property
    def listen(self):
        return f"tcp://{self.there.ipv4}:0"

    def setUp(self):
        super().setUp()
        require_namespaces(self)
        self.there, self.here = Machine(self, "n", 1), Machine(self, "c", 2)
        join(self.there, self.here)
        self.token = self.folder / "token"
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)

    def command(self, arguments, place):
        place = place or (self.there if arguments[0] == "node" else self.here)
        return ["ip", "netns", "exec", place.name, *super().command([*arguments, "--token-file", self.token], place)]

    def scrape(self, url, place):
        return (place or self.here).run("curl", "--silent", "--fail", url)


class CountsTest(Counts, NetworkCase):
    def test_they_are_those_of_shm(self):
        expected = self.counts("--pool-bytes", "64MiB", "--backend", "shm")
        self.assertGreater(expected["verdicts"]["ready"], 1_000)
        for host in (self.there.ipv4, f"[{self.there.ipv6}]"):
            node = self.start_node("--page-bytes", 4096, listen=f"tcp://{host}:0", name=host.strip("[]"))
            self.assertEqual(self.counts("--node", node.address), expected, host)

    def test_a_name(self):
        if not os.access(HOSTS if HOSTS.exists() else HOSTS.parent, os.W_OK):
            skip_or_fail(self, f"{HOSTS} cannot be written here")
        self.here.call(self, "memory.example", self.there.ipv6)
        node = self.start_node("--page-bytes", 4096, listen="tcp://[::]:0")
        port = node.address.rpartition(":")[2]
        self.assertGreater(self.replay("--node", f"tcp://memory.example:{port}")["verdicts"]["ready"], 1_000)

    def test_a_long_way(self):
        if not os.access("/dev/net/tun", os.W_OK):
            skip_or_fail(self, "there is no /dev/net/tun here")
        LongWay(self, (self.there, self.here), DELAY_S)
        node = self.start_node("--page-bytes", 4096, listen="tcp://0.0.0.0:0")
        port = node.address.rpartition(":")[2]
        near, far = (self.replay("--node", f"tcp://{host}:{port}", requests=40)
                     for host in (self.there.ipv4, LongWay.address(self.there)))
        self.assertEqual(far["verdicts"], near["verdicts"])
        round_trip_us = 2 * DELAY_S * 1e6
        self.assertLess(near["fetch_us"]["p50"], round_trip_us)
        self.assertGreater(far["fetch_us"]["p50"], round_trip_us)
        self.assertLess(far["fetch_us"]["p50"], 4 * round_trip_us)  # a cold page is two


class NodeFaultsTest(Faults, NetworkCase):
    pass


class CableTest(NetworkCase):
    """Faults of the network, not of the node; a client beside the node notices nothing of them."""

    def assert_survived(self, host, break_it, mend_it, seconds_broken=0):
        node = self.start_node(*NODE, listen="tcp://[::]:0")
        port = node.address.rpartition(":")[2]
        beside = Steady(self, f"tcp://127.0.0.1:{port}", place=self.there)
        replay = Steady(self, f"tcp://{host}:{port}")
        replay.wait_for("ready", 500)
        break_it()
        broken = time.monotonic()
        replay.wait_for("unreachable", 20)
        time.sleep(max(0, broken + seconds_broken - time.monotonic()))  # this long is the fault
        mend_it()
        replay.wait_until_back(within_s=BACK_S)
        replay.result()
        untouched = beside.result()["verdicts"]
        self.assertEqual(untouched["recompute"], untouched["recompute_by_reason"]["miss"])

    def fall_silent(self):
        self.here.lose_sight_of(self.there)
        self.there.lose_sight_of(self.here)

    def speak_again(self):
        self.here.find(self.there)
        self.there.find(self.here)

    def test_the_client_s_end_is_pulled(self):
        self.assert_survived(self.there.ipv4, lambda: self.here.plug("down"), lambda: self.here.plug("up"))

    def test_the_node_s_end_is_pulled(self):
        self.assert_survived(self.there.ipv4, lambda: self.there.plug("down"), lambda: self.there.plug("up"))

    def test_silence(self):
        self.assert_survived(self.there.ipv4, self.fall_silent, self.speak_again, SILENT_S)

    def test_silence_ipv6(self):
        self.assert_survived(f"[{self.there.ipv6}]", self.fall_silent, self.speak_again)


if __name__ == "__main__":
    unittest.main()
