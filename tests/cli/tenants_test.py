"""A node with tenants: a token, a quota and a status each, and nothing of one for another."""

import json
import signal
import unittest

from program import fetch, values_of
from tenants import LISTEN, REPLAY, Tenants


class TenantsTest(Tenants):
    def start_with_two(self, *arguments):
        return self.start_node("--config", self.two(), "--page-bytes", 4096, *arguments, listen=LISTEN)

    def replay(self, node, name):
        result = self.run_program(*REPLAY, "--node", node.address, *self.as_tenant(name), "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["wrong_bytes"], answer["deadlines"]["missed"]), (0, 0))
        self.assertGreater(answer["verdicts"]["ready"], 0)
        return answer["puts"]["acknowledged"]

    def test_each_is_served_and_sees_itself_alone(self):
        node = self.start_with_two("--token-file", self.tokens["own"])
        puts = {name: self.replay(node, name) for name in ("a", "b")}
        for name, quota in (("a", 8 << 20), ("b", 16 << 20)):
            status = self.status(node, *self.as_tenant(name))
            (tenant,) = status["tenants"]
            self.assertEqual((tenant["name"], tenant["quota_bytes"], tenant["puts"]), (name, quota, puts[name]))
            self.assertEqual((status["puts"], status["cpu_s"]), (puts[name], 0))
            self.assertLessEqual(tenant["held_bytes"], quota)
        whole = self.status(node, *self.as_tenant("own"))
        self.assertEqual([(tenant["name"], tenant["puts"]) for tenant in whole["tenants"]], list(puts.items()))
        self.assertEqual(whole["puts"], sum(puts.values()))
        self.assertGreater(whole["cpu_s"], 0)
        text = self.run_program("status", "--node", node.address, *self.as_tenant("a")).stdout
        self.assertIn("tenant a", text)
        self.assertNotIn("tenant b", text)
        self.assertNotIn("CPU time", text)

    def test_each_flushes_its_own_namespaces(self):
        node = self.start_with_two("--token-file", self.tokens["own"])
        for name in ("a", "b"):
            for number in range(17):  # together more than a status tells of
                result = self.run_program("replay", "generate", "--requests", 2, "--node", node.address, *self.as_tenant(name), "--page-bytes", "4096",
                                          "--set", f"client.facts=model={number}", "--json", "-")
                self.assertEqual(result.returncode, 0, result.stderr)
        own = {name: self.status(node, *self.as_tenant(name))["namespaces"] for name in ("a", "b")}
        self.assertEqual([len(each) for each in own.values()], [17, 17])
        self.assertEqual(len(self.status(node, *self.as_tenant("own"))["namespaces"]), 17, "the same facts, of both")
        digits = own["a"][0]["namespace"]
        self.assert_fails(self.run_program("flush", digits, "--node", node.address, *self.as_tenant("own")), 1, "operator's")
        result = self.run_program("flush", digits, "--node", node.address, *self.as_tenant("a"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.status(node, *self.as_tenant("a"))["namespaces"]), 16)
        self.assertEqual(len(self.status(node, *self.as_tenant("b"))["namespaces"]), 17)

    def test_metrics_name_the_tenants(self):
        node = self.start_program("node", "--config", self.two(), "--listen", LISTEN, "--state", self.folder / "n.state",
                                  "--pool-bytes", "64MiB", "--set", "node.metrics_listen=127.0.0.1:0")
        values = values_of(fetch(self.metrics_url(node)))
        self.assertEqual(values['farpage_tenant_quota_bytes{tenant="a"}'], 8 << 20)
        self.assertEqual(values['farpage_tenant_quota_bytes{tenant="b"}'], 16 << 20)

    def test_each_token_is_told_by_its_own_state(self):
        node = self.start_with_two()
        for name, token in (("a", "another token of tenant a's"), ("b", "short")):
            self.token("new", token).rename(self.tokens[name])
        node.send_signal(signal.SIGHUP)
        self.line_saying(node, f"the token of the tenant 'a' in '{self.tokens['a']}' has changed: new connections use it")
        self.line_saying(node, f"the token of the tenant 'b' in '{self.tokens['b']}' has changed and cannot be used")
        self.assertIsNotNone(self.status(node, *self.as_tenant("a")))

    def test_who_has_no_tenants_token_has_no_pages(self):
        node = self.start_with_two("--token-file", self.tokens["own"])
        for arguments, texts in (
            (("--token-file", self.token("other", "the token of nobody at all")), ("refuses: the client's token is not",)),
            ((), ("asks for its token",)),
            (self.as_tenant("own"), ("pages belong to tenants, each with a token of its own",)),
        ):
            result = self.run_program(*REPLAY, "--node", node.address, *arguments, "--json", "-")
            self.assert_fails(result, 1, *texts)
        self.assertEqual(self.status(node, *self.as_tenant("own"))["clients"], 0)

    def test_without_a_token_of_the_nodes_own(self):
        node = self.start_with_two()
        self.replay(node, "a")
        result = self.run_program("status", "--node", node.address)
        self.assert_fails(result, 1, "asks for its token")

    def test_configurations_that_cannot_be(self):
        a, b, own = (self.tokens[name] for name in ("a", "b", "own"))
        copy = self.token("copy", a.read_text() + "\n")
        for tenants, arguments, texts in (
            ([("a", a, "8MiB"), ("b", copy, "8MiB")], (), ("'b' and the tenant 'a' have the same token", "openssl")),
            ([("a", own, "8MiB")], ("--token-file", own), ("'a' and the node itself", "have the same token")),
            ([("a", "", "8MiB")], (), ("tenant.a.token_file is empty", "openssl rand -hex 32")),
            ([("a", self.folder / "none", "8MiB")], (), ("tenant.a.token_file: cannot read", "No such file")),
            ([("a", a, "0")], (), ("tenant.a.quota_bytes is 0",)),
            ([("a", a, "48MiB"), ("b", b, "32MiB")], (), ("more than node.pool_bytes", "tenant.b.quota_bytes = 32 MiB")),
            ([("'a b'", a, "8MiB")], (), ("'a b' is not a valid tenant name",)),
            ([("a", a, "8MiB"), ("a", b, "8MiB")], (), ("node.toml:4",)),
            ([("a", a, "8MiB")], ("--set", "tenant.a.quota_byte=5"), ("unknown key 'quota_byte' in [tenant.a]", "quota_bytes")),
            ([("a", a, "8MiB")], ("--set", "cluster.nodes=n0=tcp://127.0.0.1:1,n1=/n1.sock", "--set", "cluster.name=n0"),
             ("clients do not send on the Unix socket /n1.sock", "tcp://")),
            ([("a", a, "8MiB")], ("--set", "etcd.endpoints=http://127.0.0.1:1", "--set", "cluster.name=n0", "--set",
                                      "cluster.address=/n0.sock"),
             ("clients do not send on the Unix socket /n0.sock", "tcp://")),
            ([("a", a, "8MiB")], ("--set", "etcd.endpoints=http://127.0.0.1:1", "--set", "cluster.name=n0", "--set",
                                      "etcd.fleet=f/tenants/a"),
             ("etcd.fleet is 'f/tenants/a'", 'etcd.fleet = "f"')),
            ([("a", a, "8MiB")], ("--backend", "shm"), ("tenants are told apart by their tokens", "tcp://")),
        ):
            with self.subTest(texts[0]):
                listen = self.folder / "node.sock" if "shm" in arguments else LISTEN
                result = self.run_program("node", "--listen", listen, "--state", self.folder / "n.state", "--pool-bytes",
                                          "64MiB", "--config", self.config(*tenants), *arguments, timeout=30)
                self.assert_fails(result, 2, *texts)
        self.assertFalse((self.folder / "n.state").exists(), "nothing has begun")


if __name__ == "__main__":
    unittest.main()
