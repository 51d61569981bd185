"""Nodes with tenants are each other's replicas: a fleet for each tenant, in etcd or as a list."""

import signal
import unittest

from certificates import Authority, client_arguments, node_arguments
from etcd import Etcd, free_ports
from faults import Pace, Steady
from program import wait_until
from tenants import LISTEN, REPLAY, Tenants

NAMES = ("n0", "n1", "n2")
TENANTS = ("a", "b")
TTL_S = 2
PACE = Pace(page_bytes=4096, lease_ms=1000, reuse_ms=100, requests=800_000)


class TenantFleets(Tenants):
    """Three nodes with two tenants each."""

    def start_member(self, name, *sets, listen=LISTEN, arguments=()):
        words = [word for setting in (f"cluster.name={name}", *sets) for word in ("--set", setting)]
        return self.start_node("--config", self.two("2MiB"), *self.as_tenant("own"), *PACE.node(), *words, *arguments, name=name,
                               listen=listen)

    def all_reached(self, nodes, *arguments):
        """Each reaches all the others, for every tenant."""
        for node in nodes.values():
            self.assertTrue(wait_until(lambda: all(
                len(fleet["others"]) == len(nodes) - 1 and all(other["reached"] for other in fleet["others"])
                for fleet in (self.status(node, *self.as_tenant(name), *arguments)["fleet"] for name in ("own", *TENANTS)))))

    def held(self, nodes, name, *arguments):
        return sum(self.status(node, *self.as_tenant(name), *arguments)["slots_live"] for node in nodes.values())

    def steady(self, reach):
        """A replay of each tenant that only reads, its pages on two nodes each."""
        replays = {name: Steady(self, None, *reach(name), pace=PACE, puts=False) for name in TENANTS}
        for replay in replays.values():
            replay.wait_until_warm()
        return replays

    def assert_all_are_served_without(self, nodes, name, replays):
        before = {tenant: replay.metrics() for tenant, replay in replays.items()}
        nodes.pop(name).kill()
        for tenant, replay in replays.items():
            replay.wait_for("ready", 3 * PACE.pages)
            self.assertEqual(replay.metrics()["miss"], before[tenant]["miss"])

    def assert_evicts_its_own_alone(self, nodes, reach, *arguments):
        result = self.run_program("replay", "generate", "--requests", 300, "--page-bytes", 4096, "--local-pages", 10, *reach("b"),
                                  "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        evictions = {name: sum(self.status(node, *self.as_tenant(name), *arguments)["evictions"] for node in nodes.values())
                     for name in TENANTS}
        self.assertGreater(evictions["b"], 100)
        self.assertEqual(evictions["a"], 0)


class EtcdTenantsTest(TenantFleets):
    def setUp(self):
        super().setUp()
        self.etcd = Etcd(self)

    def start_fleet(self, *sets, names=NAMES):
        nodes = {name: self.start_in_etcd(name, *sets) for name in names}
        self.all_reached(nodes)
        return nodes

    def start_in_etcd(self, name, *sets):
        return self.start_member(name, f"etcd.endpoints={self.etcd.endpoints}", f"etcd.ttl_s={TTL_S}", *sets)

    def reach(self, token, fleet=None, *more):
        sets = (f"etcd.endpoints={self.etcd.endpoints}", f"etcd.fleet=farpage/tenants/{fleet or token}", *more)
        return (*self.as_tenant(token), *(word for setting in sets for word in ("--set", setting)))

    def members(self, tenant):
        return len(self.etcd.epoch(f"farpage/tenants/{tenant}").get("members", []))

    def records(self, tenant):
        return self.etcd.control("get", "--prefix", "--keys-only", f"/farpage/farpage/tenants/{tenant}/nodes/").split()

    def replay(self, reach, connect_ms=2000):
        return self.run_program(*REPLAY, *reach, "--json", "-", "--set", f"client.connect_ms={connect_ms}")

    def test_a_node_dies_and_comes_back_for_both(self):
        nodes = self.start_fleet()
        replays = self.steady(self.reach)
        self.assert_all_are_served_without(nodes, "n2", replays)
        for name in TENANTS:
            self.assertTrue(wait_until(lambda: self.members(name) == 2))
        nodes["n2"] = self.start_in_etcd("n2")
        self.all_reached(nodes)
        for name in TENANTS:
            self.assertEqual(self.members(name), 3)
            self.assertTrue(wait_until(lambda: self.held(nodes, name) == 2 * (PACE.pages + 16), 60), self.held(nodes, name))
        for replay in replays.values():
            replay.wait_until_back()
            replay.result()
        whole = self.status(nodes["n0"], *self.as_tenant("own"))
        self.assertEqual([tenant["name"] for tenant in whole["tenants"]], list(TENANTS))
        self.assertEqual((whole["fleet"]["replicas"], whole["fleet"]["to_fill"]), (2, 0))
        nodes["n1"].send_signal(signal.SIGTERM)
        self.assertEqual(nodes["n1"].wait(30), 0)
        for name in TENANTS:
            self.assertEqual(self.members(name), 2)
            self.assertEqual(self.records(name), [f"/farpage/farpage/tenants/{name}/nodes/{node}" for node in ("n0", "n2")])

    def test_whom_etcd_lets_read_his_own_alone_learns_nothing_of_others(self):
        for name, rights, prefix in (("root", None, None), ("farpage", "readwrite", ""), ("a", "read", "tenants/a/"), ("b", "read", "tenants/b/")):
            self.etcd.control("user", "add", f"{name}:{name}pw")
            if rights:
                self.etcd.control("role", "add", name)
                self.etcd.control("role", "grant-permission", name, "--prefix=true", rights, f"/farpage/farpage/{prefix}")
            self.etcd.control("user", "grant-role", name, name)
        self.etcd.control("auth", "enable")

        def user(name):
            return f"etcd.user={name}", f"etcd.password_file={self.token(f'{name}.password', f'{name}pw')}"

        nodes = {name: self.start_in_etcd(name, *user("farpage")) for name in NAMES}
        self.all_reached(nodes)
        for name in TENANTS:
            result = self.replay(self.reach(name, name, *user(name)), 20_000)
            self.assertEqual(result.returncode, 0, result.stderr)
        answers = [self.replay(self.reach("a", fleet, *user("a")), 20_000) for fleet in ("b", "x")]
        for answer in answers:
            self.assert_fails(answer, 1, "role")
        self.assertEqual(answers[0].stderr.replace("tenants/b", "tenants/x"), answers[1].stderr)

    def test_a_token_opens_no_other_fleet(self):
        nodes = self.start_fleet(names=NAMES[:2])
        self.assert_fails(self.replay(self.reach("a", "b")), 1, "is not a member of this fleet's epoch")
        self.assert_fails(self.replay(self.reach("own", "b")), 1, "pages belong to tenants")
        self.assert_fails(self.replay(self.reach("a", "x")), 1, "'farpage/tenants/x'", "a table [tenant.x]", 'etcd.fleet = "farpage"')
        everybody = ("--set", f"etcd.endpoints={self.etcd.endpoints}", *self.as_tenant("a"))
        self.assert_fails(self.replay(everybody), 1, 'etcd.fleet = "farpage/tenants/NAME"')
        for name in TENANTS:
            self.assertEqual(self.held(nodes, name), 0)

    def drain(self, name, token, fleet=None):
        return self.start_program("drain", name, *self.reach(token, fleet))

    def test_a_process_ends_once_all_its_tenants_are_drained(self):
        nodes = self.start_fleet("cluster.replicas=1")
        replays = self.steady(self.reach)
        before = {name: self.held(nodes, name) for name in TENANTS}
        leaving = nodes.pop("n1")
        result = self.run_program("drain", "n1", *self.reach("own", "a"))
        self.assert_fails(result, 1, "name the token of the tenant")
        first = self.drain("n1", "a")
        self.assertTrue(any("the tenant 'a' is drained" in line for line in leaving.stderr))
        self.assertIsNone(first.poll())
        self.assertEqual(self.status(leaving, *self.as_tenant("b"))["fleet"]["replicas"], 1)
        second = self.drain("n1", "b")
        for drain in (first, second):
            output, errors = drain.communicate(timeout=60)
            self.assertEqual(drain.returncode, 0, errors)
            self.assertIn("n1 is drained", output)
        self.assertEqual(leaving.wait(30), 0)
        self.assertIn("drained: other nodes have this node's pages", leaving.stderr.read())
        for name, replay in replays.items():
            replay.wait_until_back()
            replay.result()
            self.assertGreaterEqual(self.held(nodes, name), before[name])
            self.assertEqual(self.members(name), 2)
        nodes["n1"] = self.start_in_etcd("n1", "cluster.replicas=1")
        self.all_reached(nodes)

    def test_where_one_tenant_cannot_be_none_is(self):
        self.start_node("--config", self.config(("b", self.tokens["b"], "8MiB")), *PACE.node(), "--set", "cluster.name=other", "--set",
                        f"etcd.endpoints={self.etcd.endpoints}", "--set", "cluster.seed=5", name="other", listen=LISTEN)
        result = self.run_program("node", "--listen", LISTEN, "--state", self.folder / "n0.state", "--pool-bytes", "64MiB", "--config",
                                  self.two(), *PACE.node(), "--set", "cluster.name=n0", "--set", f"etcd.endpoints={self.etcd.endpoints}")
        self.assert_fails(result, 1, "the tenant 'b'", "cluster.seed is 0 here and 5 there")
        self.assertEqual(self.records("a"), [])
        self.assertEqual(len(self.records("b")), 1)

    def test_second_process_with_the_same_state_leaves_the_first_alone(self):
        node = self.start_in_etcd("n0")
        records = [self.etcd.control("get", f"/farpage/farpage/tenants/{name}/nodes/n0") for name in TENANTS]
        second = self.run_program("node", "--listen", LISTEN, "--state", self.folder / "n0.state", "--pool-bytes", "64MiB", "--config",
                                  self.two(), *PACE.node(), "--set", "cluster.name=n0", "--set", f"etcd.endpoints={self.etcd.endpoints}")
        self.assert_fails(second, 1, "n0.state")
        self.assertEqual([self.etcd.control("get", f"/farpage/farpage/tenants/{name}/nodes/n0") for name in TENANTS], records)
        self.assertIsNone(node.poll())

    def test_quota_evicts_its_owners_pages_alone(self):
        nodes = self.start_fleet()
        replay = Steady(self, None, *self.reach("a"), pace=PACE, puts=False)
        replay.wait_until_warm()
        self.assert_evicts_its_own_alone(nodes, self.reach)
        replay.wait_until_back()
        replay.result()


class ListedTenantsTest(TenantFleets):
    def test_a_node_dies_and_comes_back_for_both_under_tls(self):
        authority = Authority(self.folder)
        pair = authority.issue("node")
        shown = client_arguments(authority.file, authority.issue("client"))
        addresses = {name: f"tcp://127.0.0.1:{port}" for name, port in zip(NAMES, free_ports(len(NAMES)))}
        listed = "cluster.nodes=" + ",".join(f"{name}={address}" for name, address in addresses.items())

        def start(name):
            return self.start_member(name, listed, listen=addresses[name], arguments=node_arguments(pair, authority.file))

        def reach(name):
            return (*self.as_tenant(name), "--set", listed, "--set", f"cluster.page_bytes={PACE.page_bytes}", *shown)

        nodes = {name: start(name) for name in NAMES}
        self.all_reached(nodes, *shown)
        replays = self.steady(reach)
        self.assert_all_are_served_without(nodes, "n2", replays)
        for replay in replays.values():
            replay.result()
        nodes["n2"] = start("n2")
        self.all_reached(nodes, *shown)
        for name in TENANTS:
            self.assertTrue(wait_until(lambda: self.held(nodes, name, *shown) == 2 * (PACE.pages + 16), 60),
                            self.held(nodes, name, *shown))
        self.assert_evicts_its_own_alone(nodes, reach, *shown)
        self.tokens["nobody"] = self.token("nobody", "the token of nobody at all")
        self.assert_fails(self.run_program(*REPLAY, *reach("nobody")), 1, "the client's token is not")


if __name__ == "__main__":
    unittest.main()
