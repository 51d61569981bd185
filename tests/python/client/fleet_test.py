"""A client of several nodes: of a list, of a fleet in a real etcd, and over TLS with a token."""

import unittest

from certificates import Authority, node_arguments
import numpy
from client_case import READY, content, contents, farpage, key, keys
from etcd import Etcd, free_ports
from fleet import EtcdFleet
from program import Case, stop, wait_until

NAMES = ("a", "b", "c")
PAGES = 64
DEADLINE_S = 120
CODE = farpage.Code


class FleetCase(Case):
    page_bytes = 4096

    def open(self, **settings):
        client = farpage.open(connect_ms=20_000, **settings)
        self.addCleanup(client.close)
        return client

    def put_until_acknowledged(self, client, first, count):
        """A put whose nodes do not reach each other yet, or whose epoch changes, is put again."""
        memory = contents(first, count, self.page_bytes)
        self.assertTrue(wait_until(lambda: not client.put(keys(first, count), memory, timeout_s=5).wait()["code"].any()))

    def assert_there(self, client, first, count):
        """Each page is ready, or has its verdict in time and is ready when asked for again."""
        into = numpy.zeros((count, self.page_bytes), numpy.uint8)

        def all_ready():
            into[:] = 0
            ready = client.fetch(keys(first, count), into, timeout_s=2).wait()["verdict"] == READY
            for row in numpy.flatnonzero(ready):
                self.assertEqual(into[row].tobytes(), content(first + row, self.page_bytes))
            return ready.all()

        self.assertTrue(wait_until(all_ready))

    def assert_every_call(self, client):
        self.put_until_acknowledged(client, 0, PAGES)
        self.assert_there(client, 0, PAGES)
        self.assertEqual(client.leading(keys(0, PAGES + 1), timeout_s=10), PAGES)
        found = client.exists(keys(PAGES - 1, 2), timeout_s=10).wait()["verdict"]
        self.assertEqual(list(found == READY), [True, False])
        self.assertEqual(client.remove([key(0), key(PAGES)], timeout_s=10).wait(), 1)
        self.assertEqual(client.leading(keys(0, PAGES), timeout_s=10), 0)
        client.flush(timeout_s=10)
        self.assertGreaterEqual(client.statistics().puts_acknowledged, PAGES)


class ListTest(FleetCase):
    page_bytes = 65536

    def node_list(self):
        return ",".join(f"{name}={self.folder}/{name}.sock" for name in NAMES)

    def start_members(self):
        return {name: self.start_node("--set", f"cluster.nodes={self.node_list()}", "--set", f"cluster.name={name}",
                                      name=name) for name in NAMES}

    def test_every_call(self):
        self.start_members()
        self.assert_every_call(self.open(cluster={"nodes": self.node_list()}))

    def test_pages_ahead(self):
        self.start_members()
        client = self.open(cluster={"nodes": self.node_list()}, ahead={"pages": PAGES})
        self.put_until_acknowledged(client, 0, PAGES)
        client.announce(keys(0, PAGES), wanted_in_s=60)
        self.assertTrue(wait_until(lambda: client.statistics().fetched_ahead == PAGES), client.statistics())
        self.assert_there(client, 0, PAGES)
        self.assertEqual(client.statistics().near_ready, PAGES)

    def test_links_that_rest_come_back(self):
        nodes = self.start_members()
        client = self.open(cluster={"nodes": self.node_list()}, rest_ms=500)
        for first in (0, PAGES):
            self.put_until_acknowledged(client, first, PAGES)
            self.assert_there(client, 0, first + PAGES)
            self.assertTrue(wait_until(lambda: all(self.status(node)["clients"] == len(NAMES) - 1 for node in nodes.values())),
                            "only the members are left")

    def test_each_page_outlives_a_node(self):
        nodes = self.start_members()
        client = self.open(cluster={"nodes": self.node_list()})
        self.put_until_acknowledged(client, 0, PAGES)
        nodes["b"].kill()
        nodes["b"].wait()
        self.assert_there(client, 0, PAGES)
        # Of a list all replicas have to be there.
        ticket = client.put(keys(0, PAGES), contents(0, PAGES, self.page_bytes), timeout_s=1)
        codes = set(ticket.wait()["code"])
        self.assertTrue(codes - {CODE.OK}, codes)
        self.assertLessEqual(codes, {CODE.OK, CODE.TIMEOUT, CODE.UNAVAILABLE})
        self.assertRegex(ticket.why(), "node")

    def test_a_stopped_node_keeps_no_answer_back(self):
        """Neither of its own pages, which have replicas, nor of the others of the same operation:
        who waited for it would wait until the deadline."""
        addresses = {name: f"tcp://127.0.0.1:{port}" for name, port in zip(NAMES, free_ports(len(NAMES)))}
        listed = ",".join(f"{name}={address}" for name, address in addresses.items())
        nodes = {name: self.start_node("--set", f"cluster.nodes={listed}", "--set", f"cluster.name={name}", name=name, listen=address)
                 for name, address in addresses.items()}
        client = self.open(cluster={"nodes": listed})
        self.put_until_acknowledged(client, 0, PAGES)
        held = {name: self.status(node)["slots_live"] for name, node in nodes.items()}
        self.assertTrue(0 < held["c"] < PAGES, held)  # some pages are its own, and some of others
        stop(nodes["c"].pid)
        into = numpy.zeros((PAGES, self.page_bytes), numpy.uint8)
        for verdicts in (client.fetch(keys(0, PAGES), into, timeout_s=DEADLINE_S).wait(), client.exists(keys(0, PAGES), timeout_s=DEADLINE_S).wait()):
            self.assertEqual(set(verdicts["verdict"]), {READY})
            self.assertLess(verdicts["took_ns"].max() / 1e9, DEADLINE_S / 2)
        self.assertEqual(into.tobytes(), contents(0, PAGES, self.page_bytes).tobytes())


class EtcdTest(EtcdFleet, FleetCase):
    def test_every_call(self):
        etcd = Etcd(self)
        self.start_fleet(etcd, NAMES)
        self.assert_every_call(self.open(etcd={"endpoints": etcd.endpoints}))

    def test_puts_go_on_once_a_dead_node_is_left_out(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd, NAMES)
        client = self.open(etcd={"endpoints": etcd.endpoints})
        self.put_until_acknowledged(client, 0, PAGES)
        nodes["a"].kill()
        self.put_until_acknowledged(client, PAGES, PAGES)
        self.assert_there(client, 0, 2 * PAGES)


class TlsTest(FleetCase):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder)
        self.token = self.folder / "token"
        self.token.write_text("a secret of 32 bytes and some more")
        self.token.chmod(0o600)
        node = self.start_node("--set", f"security.token_file={self.token}", *node_arguments(self.authority.issue("node")), "--page-bytes",
                               self.page_bytes, listen="tcp://127.0.0.1:0")
        self.address = node.address

    def test_every_call(self):
        self.assert_every_call(self.open(node=self.address, security={"token_file": str(self.token), "tls": True, "tls_ca": str(self.authority.file)}))

    def test_who_has_not_the_secret_is_refused(self):
        other = self.folder / "other"
        other.write_text("another secret of 32 bytes and more")
        other.chmod(0o600)
        for security in ({"token_file": str(other), "tls": True, "tls_ca": str(self.authority.file)},
                         {"token_file": str(self.token), "tls": True, "tls_ca": str(Authority(self.folder, "stranger").file)}):
            with self.assertRaises(farpage.FarpageError) as raised:
                self.open(node=self.address, security=security)
            self.assertNotIsInstance(raised.exception, farpage.FarpageTimeoutError, security)


if __name__ == "__main__":
    unittest.main()
