"""A client that asks for nothing for a while: its nodes forget it, and serve it at once when it
comes again."""

import unittest

from certificates import Authority, node_arguments
from client_case import READY, ClientCase, contents, farpage, keys
from etcd import Etcd
from fleet import PACE, EtcdFleet
from program import Case, wait_until

NAMES = ("a", "b", "c")
PAGES = 32
REST = {"rest_ms": 300}
PAGE_BYTES = PACE.page_bytes
TERMS = ("--page-bytes", PAGE_BYTES, "--set", f"node.lease_ms={PACE.lease_ms}")


class RestCase(Case):
    fetch = ClientCase.fetch

    def assert_served_after_rests(self, nodes, **settings):
        """`nodes`: all processes that may serve the client."""
        members = []
        self.assertTrue(wait_until(lambda: members.append([self.clients(node) for node in nodes]) or None not in members[-1]))
        members = members[-1]
        self.client = farpage.open(connect_ms=20_000, **REST, **settings)
        self.addCleanup(self.client.close)
        pages = contents(0, PAGES, PAGE_BYTES)
        self.assertTrue(wait_until(lambda: not self.client.put(keys(0, PAGES), pages, timeout_s=5).wait()["code"].any()))

        def rest():
            self.assertTrue(wait_until(lambda: [self.clients(node) for node in nodes] == members), [self.status(node) for node in nodes])

        rest()
        into = contents(PAGES, PAGES, PAGE_BYTES)  # other bytes
        self.fetch(keys(0, PAGES), into)
        self.assertEqual(into.tobytes(), pages.tobytes())
        rest()
        self.assertEqual(self.client.leading(keys(0, PAGES + 1)), PAGES)
        rest()
        self.assertEqual(set(self.client.exists(keys(0, PAGES)).wait()["verdict"]), {READY})
        rest()
        codes = self.client.put(keys(PAGES, 1), contents(PAGES, 1, PAGE_BYTES), timeout_s=60).wait()["code"]
        self.assertEqual(list(codes), [farpage.Code.OK])
        rest()
        self.assertEqual(self.client.remove(keys(0, PAGES), timeout_s=60).wait(), PAGES)

    words = ()  # more, to reach a node with

    def clients(self, node):
        """None: it does not say in time."""
        return (self.status(node, *self.words) or {}).get("clients")


class OneNodeTest(RestCase):
    def test_over_shared_memory(self):
        node = self.start_node(*TERMS)
        self.assert_served_after_rests([node], node=node.address)

    def test_over_tls(self):
        authority = Authority(self.folder)
        token = self.folder / "token"
        token.write_text("a secret of 32 bytes and some more")
        token.chmod(0o600)
        node = self.start_node(*TERMS, "--set", f"security.token_file={token}", *node_arguments(authority.issue("node")), listen="tcp://127.0.0.1:0")
        security = {"token_file": str(token), "tls": True, "tls_ca": str(authority.file)}
        self.words = ("--set", f"security.token_file={token}", "--set", "security.tls=true", "--set", f"security.tls_ca={authority.file}")
        self.assert_served_after_rests([node], node=node.address, security=security)


class FleetTest(EtcdFleet, RestCase):
    def test_of_a_list(self):
        listed = ",".join(f"{name}={self.folder}/{name}.sock" for name in NAMES)
        nodes = [self.start_node(*TERMS, "--set", f"cluster.nodes={listed}", "--set", f"cluster.name={name}", name=name) for name in NAMES]
        self.assertTrue(wait_until(lambda: all(self.clients(node) == len(NAMES) - 1 for node in nodes)))
        self.assert_served_after_rests(nodes, cluster={"nodes": listed, "page_bytes": PAGE_BYTES})

    def test_of_an_etcd(self):
        etcd = Etcd(self)
        nodes = list(self.start_fleet(etcd, NAMES).values())
        self.assertTrue(wait_until(lambda: all(self.clients(node) == len(NAMES) - 1 for node in nodes)))
        self.assert_served_after_rests(nodes, etcd={"endpoints": etcd.endpoints})


if __name__ == "__main__":
    unittest.main()
