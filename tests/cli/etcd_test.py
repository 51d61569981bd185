"""A fleet with its epochs in a real etcd: nodes come, go, die and come back, and so does etcd."""

import random
import re
import signal
import time
import unittest

from certificates import Authority
from counts import Counts
from etcd import Etcd
from faults import Steady
from fleet import NAMES, PACE, TTL_S, EtcdFleet
from losing_etcd import LosingEtcd
from program import Case, stop, wait_until


class EtcdTest(EtcdFleet, Counts, Case):
    def test_nodes_find_each_other_and_clients_find_them(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd)
        epoch = etcd.epoch()
        self.assertEqual((len(epoch["members"]), epoch["replicas"]), (3, 2))
        draw = random.Random(7)
        requests = [[draw.randrange(300) for _ in range(draw.randrange(40))] for _ in range(100)]
        self.assert_counts(self.replay_once(etcd, requests), requests, 0)
        pages = len({page for request in requests for page in request})
        self.assertEqual(sum(self.live(nodes).values()), 2 * pages)

    def test_all_members_are_flushed(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd)
        result = self.run_program("replay", "generate", "--requests", 50, "--page-bytes", "4096", "--set", "client.facts=model=a",
                                  *self.reach(etcd), "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        digits = {each["namespace"] for node in nodes.values() for each in self.status(node)["namespaces"]}
        self.assertEqual(len(digits), 1)
        pages = sum(self.live(nodes).values())
        self.assertGreater(pages, 0)
        result = self.run_program("flush", digits.pop(), *self.reach(etcd))
        self.assertIn(f"{pages} copies of pages of ", result.stdout, result.stderr)
        self.assertEqual(set(self.live(nodes).values()), {0})

    def test_one_that_dies_is_left_out_and_comes_back_and_is_filled(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd)
        replay = Steady(self, None, *self.reach(etcd), pace=PACE, puts=False)
        replay.wait_until_warm()
        nodes["c"].kill()
        # Each page is on another node too, and no epoch has to change for it to be read there.
        replay.wait_until_back()
        self.assertTrue(wait_until(lambda: self.members(etcd) == 2))
        before = etcd.epoch()["number"]
        held = self.live({name: nodes[name] for name in "ab"})
        self.assertTrue(wait_until(lambda: set(self.live({name: nodes[name] for name in "ab"}).values()) == {PACE.pages + 16},
                                   60), held)
        nodes["c"] = self.start_member(etcd, "c")
        self.assertTrue(wait_until(lambda: self.members(etcd) == 3))
        self.assertGreater(etcd.epoch()["number"], before)
        self.assertTrue(wait_until(lambda: sum(self.live(nodes).values()) == 2 * (PACE.pages + 16), 60), self.live(nodes))
        replay.wait_until_back()
        replay.result()

    def test_one_that_ends_in_good_order_leaves_at_once(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd, ("a", "b"), "etcd.ttl_s=600")
        nodes["b"].send_signal(signal.SIGTERM)
        self.assertEqual(nodes["b"].wait(30), 0)
        epoch = etcd.epoch()
        self.assertEqual((len(epoch["members"]), epoch["replicas"]), (1, 1))
        self.assertEqual(etcd.control("get", "--prefix", "--keys-only", "/farpage/farpage/nodes/").split(), ["/farpage/farpage/nodes/a"])

    def test_one_that_was_stopped_comes_back_empty(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd)
        requests = [list(range(300))]
        self.replay_once(etcd, requests)
        incarnation = self.status(nodes["b"])["incarnation"]
        stop(nodes["b"].pid)
        self.assertTrue(wait_until(lambda: self.members(etcd) == 2))
        nodes["b"].send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(lambda: self.members(etcd) == 3))
        self.assertNotEqual(self.status(nodes["b"])["incarnation"], incarnation)
        self.assertTrue(wait_until(lambda: sum(self.live(nodes).values()) == 600, 60), self.live(nodes))

    def test_nodes_read_what_was_written_and_not_everything(self):
        """As in a large fleet while its members confirm an epoch, one after the other."""
        etcd = Etcd(self)
        self.start_fleet(etcd)
        others = [f"/farpage/farpage/confirmed/{number:016x}" for number in range(1, 2001)]
        for first in range(0, len(others), 100):
            etcd.put(others[first:first + 100], "1")
        self.assertTrue(wait_until(lambda: self.has_read_all(etcd)))
        before, writes, begun = etcd.sent_bytes(), 0, time.monotonic()
        while time.monotonic() - begun < 2 * PACE.lease_ms / 1000 or writes < 100:
            etcd.put([others[writes % len(others)]], "1")
            writes += 1
        # The nodes read some twenty times a second, and a read of all has over 100 KB.
        sent, seconds = etcd.sent_bytes() - before, time.monotonic() - begun
        self.assertLess(sent, 500_000 * seconds + 500 * writes)
        self.assertEqual(self.members(etcd), 3)

    def has_read_all(self, etcd):
        """Nothing was sent for a while but what finds nothing new."""
        before, end = etcd.sent_bytes(), time.monotonic() + PACE.lease_ms / 1000
        while time.monotonic() < end:
            if etcd.sent_bytes() - before > 50_000:
                return False
        return True

    def test_etcd_gone_and_back(self):
        etcd = Etcd(self)
        self.start_fleet(etcd)
        replay = Steady(self, None, *self.reach(etcd), pace=PACE, puts=False)
        replay.wait_until_warm()
        epoch = etcd.epoch()
        etcd.members[0].kill()
        gone = time.monotonic()
        replay.wait_for("ready", 3)  # as long as the views last
        # The replay puts each page again, and a put waits for etcd as long as it may.
        replay.wait_for("unreachable", 3)
        ended = replay.metrics()["ready"]
        # Longer than the leases of the nodes.
        time.sleep(max(0, gone + 2 * TTL_S - time.monotonic()))
        self.assertEqual(replay.metrics()["ready"], ended)
        etcd.members[0].start()
        self.assertTrue(wait_until(etcd.serves))
        replay.wait_until_back()
        self.assertEqual(etcd.epoch(), epoch)
        replay.result()
        self.assertEqual(self.replay_once(etcd, [list(range(50_000, 50_100))])["puts"]["acknowledged"], 100)

    def test_etcd_that_hangs_and_goes_on(self):
        etcd = Etcd(self)
        self.start_fleet(etcd)
        replay = Steady(self, None, *self.reach(etcd), pace=PACE, puts=False)
        replay.wait_until_warm()
        etcd.members[0].signal(signal.SIGSTOP)
        # The replay puts each page again, and a put waits for etcd as long as it may.
        replay.wait_for("unreachable", 3)
        etcd.members[0].signal(signal.SIGCONT)
        replay.wait_until_back()
        replay.result()

    def test_nobody_is_taken_for_dead_by_one_that_was_cut_off_itself(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd)
        time.sleep(1.5 * TTL_S)  # by now each has heard of etcd long enough to judge others
        epoch = etcd.epoch()
        # As if nobody had been heard of for their time, and all at once.
        for node in nodes.values():
            stop(node.pid)
        for lease in etcd.control("lease", "list").split()[3:]:
            etcd.control("lease", "revoke", lease)
        records = ("get", "--prefix", "--keys-only", "/farpage/farpage/nodes/")
        self.assertEqual(etcd.control(*records).split(), [])
        for node in nodes.values():
            node.send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(lambda: len(etcd.control(*records).split()) == len(NAMES)))
        time.sleep(TTL_S)
        self.assertEqual(etcd.epoch(), epoch)

    def test_one_of_three_members_of_etcd_dies(self):
        etcd = Etcd(self, members=3)
        self.start_fleet(etcd)
        replay = Steady(self, None, *self.reach(etcd), pace=PACE, puts=False)
        replay.wait_until_warm()
        etcd.members[0].kill()  # the one that is asked first
        replay.wait_until_back()
        replay.wait_for("ready", 3 * PACE.pages)
        etcd.members[0].start()
        replay.result()

    def test_history_that_etcd_has_compacted_is_of_no_use_to_anybody(self):
        etcd = Etcd(self)
        self.start_fleet(etcd, ("a", "b"))
        replay = Steady(self, None, *self.reach(etcd), pace=PACE, puts=False)
        replay.wait_until_warm()
        etcd.ask("kv/compaction", {"revision": etcd.ask("kv/range", {"key": "AA=="})["header"]["revision"], "physical": True})
        self.start_member(etcd, "c")
        self.assertTrue(wait_until(lambda: self.members(etcd) == 3))
        replay.wait_until_back()
        replay.result()

    def drain(self, etcd, name, *arguments):
        return self.run_program("drain", name, *arguments, *self.reach(etcd))

    def test_one_that_is_drained_leaves_nothing_behind(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd, NAMES, "cluster.replicas=1")
        pages = list(range(400))
        self.replay_once(etcd, [pages])
        held = self.live(nodes)
        self.assertEqual(sum(held.values()), len(pages))
        self.assertGreater(held["b"], 50)
        replay = Steady(self, None, *self.reach(etcd), pace=PACE, puts=False)
        replay.wait_until_warm()
        before = self.live(nodes)
        result = self.drain(etcd, "b")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("b is drained", result.stdout)
        self.assertEqual(nodes["b"].wait(30), 0)
        replay.wait_until_back()
        replay.result()
        # Each page was on one node alone, and all of them are there.
        self.assertGreaterEqual(sum(self.live({name: nodes[name] for name in "ac"}).values()), sum(before.values()))
        self.assertEqual(self.members(etcd), 2)
        self.assertEqual(etcd.control("get", "--prefix", "--keys-only", "/farpage/farpage/drained/").strip(), "")
        nodes["b"] = self.start_member(etcd, "b", "cluster.replicas=1")
        self.assertTrue(wait_until(lambda: self.members(etcd) == 3))

    def begin_slow_drain(self, etcd, names):
        """Of b, whose pages the others have not all yet."""
        nodes = self.start_fleet(etcd, names, "node.fill_bytes_per_s=131072")
        self.replay_once(etcd, [list(range(400))])
        drain = self.start_program("drain", "b", *self.reach(etcd))
        self.assertTrue(wait_until(lambda: self.leaves(etcd)))
        return nodes, drain

    def leaves(self, etcd):
        return any(member.get("leaving") for member in etcd.epoch()["members"])

    def test_drain_does_not_take_the_next_run_for_the_one_that_left(self):
        etcd = Etcd(self)
        nodes, first = self.begin_slow_drain(etcd, NAMES)
        stop(first.pid)
        nodes["b"].kill()
        nodes["b"].wait()
        nodes["b"] = self.start_member(etcd, "b", "node.fill_bytes_per_s=131072")
        self.assertTrue(wait_until(lambda: not self.leaves(etcd)))
        self.assertTrue(wait_until(lambda: not any(self.status(node)["fleet"]["to_fill"] for node in nodes.values()), 60))
        second = self.start_program("drain", "b", *self.reach(etcd))
        self.assertTrue(wait_until(lambda: self.leaves(etcd)))
        first.send_signal(signal.SIGCONT)
        _, errors = first.communicate(timeout=60)
        self.assertEqual(first.returncode, 1)
        self.assertIn("left or come back", errors)
        output, errors = second.communicate(timeout=60)
        self.assertEqual(second.returncode, 0, errors)
        self.assertIn("b is drained", output)

    def test_drain_goes_on_after_an_etcd_that_was_away(self):
        etcd = Etcd(self)
        _, drain = self.begin_slow_drain(etcd, NAMES)
        etcd.members[0].kill()
        self.line_saying(drain, "etcd")
        etcd.members[0].start()
        self.assertTrue(wait_until(etcd.serves))
        output, errors = drain.communicate(timeout=60)
        self.assertEqual(drain.returncode, 0, errors)
        self.assertIn("b is drained", output)

    def test_drain_goes_on_though_etcds_answers_to_its_writes_are_lost(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd)
        self.assertTrue(wait_until(lambda: not any(self.status(node)["fleet"]["to_fill"] for node in nodes.values())))
        losing = LosingEtcd(self, etcd, losses=2)  # that it may leave, and that it may end
        result = self.drain(losing, "b")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(losing.left, 0)
        self.assertEqual(self.members(etcd), 2)

    def test_drain_says_that_another_node_which_dies_may_have_had_the_last_copy(self):
        etcd = Etcd(self)
        nodes, drain = self.begin_slow_drain(etcd, (*NAMES, "d"))
        nodes["c"].kill()
        _, errors = drain.communicate(timeout=60)
        self.assertEqual(drain.returncode, 1)
        self.assertIn("may be lost", errors)
        # And the same command goes on.
        result = self.drain(etcd, "b")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_cannot_be_drained_is_told(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd, ("a",), "cluster.replicas=1")
        self.assert_fails(self.drain(etcd, "a"), 1, "only node", "start another")
        self.assert_fails(self.drain(etcd, "z"), 1, "'z'")
        self.assert_fails(self.run_program("drain", "a"), 2, "etcd.endpoints")
        nodes["b"] = self.start_node(*self.node_words(etcd, "b", "cluster.replicas=1"), name="b", listen="tcp://127.0.0.1:0",
                                     pool="1MiB")
        self.assertTrue(wait_until(lambda: self.reached(nodes["a"]) == 1))
        self.replay_once(etcd, [list(range(1000))])
        self.assertTrue(wait_until(lambda: self.status(nodes["a"])["fleet"]["to_fill"] == 0))
        self.assert_fails(self.drain(etcd, "a"), 1, "has room for", "--evict")
        self.assertEqual(self.members(etcd), 2)
        result = self.drain(etcd, "a", "--evict")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_cannot_be_in_one_fleet_is_told(self):
        etcd = Etcd(self)
        first = self.start_member(etcd, "a")

        def refused(*more, name="x", listen="tcp://127.0.0.1:0"):
            return self.run_program("node", "--listen", listen, "--state", self.folder / "x.state", "--pool-bytes", "64MiB",
                                    *self.node_words(etcd, name, *more))

        self.assert_fails(refused(name="a"), 1, "a node 'a' is in the fleet already", first.address)
        self.assert_fails(refused("node.lease_ms=500"), 1, "node.lease_ms is 500 here and 1000 there", "etcd.fleet")
        self.assert_fails(refused("cluster.replicas=1"), 1, "cluster.replicas is 1 here and 2 there")
        self.assert_fails(refused("cluster.seed=5"), 1, "cluster.seed is 5 here and 0 there")
        self.assert_fails(refused("cluster.nodes=x=/x"), 2, "cluster.nodes and etcd.endpoints")
        self.assert_fails(refused(name=""), 2, "cluster.name")
        self.assert_fails(refused("security.allow_anyone=true", listen="tcp://0.0.0.0:0"), 2, "cluster.address")
        for address in ("tcp://0.0.0.0:7", "tcp://[::]:7", "tcp://[::ffff:0.0.0.0]:7", "tcp://[fe80::1]:7", "tcp://10.0.0.1:0"):
            self.assert_fails(refused(f"cluster.address={address}"), 2, f"cluster.address: {address}")
        self.assert_fails(refused("cluster.address=tcp://localhost:7", "etcd.endpoints=http://192.0.2.1:2379"), 2, "cluster.address is",
                          "which every other host takes for itself", "192.0.2.1:2379")
        self.assert_fails(refused("etcd.ttl_s=1"), 2, "etcd.ttl_s is 1")
        self.assert_fails(self.run_program("replay", "generate", "--node", first.address, *self.reach(etcd)), 2, "leave out all but one")
        self.assert_fails(self.run_program("replay", "generate", *self.reach(etcd, "etcd.fleet=nobody", "client.connect_ms=300")), 1,
                          "no living memory node", "'nobody'")
        etcd.control("put", "/farpage/other/epoch", "hello")
        self.assert_fails(self.run_program("replay", "generate", *self.reach(etcd, "etcd.fleet=other")), 1,
                          "/farpage/other/epoch", "not a record of this program")

    def test_process_that_died_is_followed_by_one_with_its_state_at_once(self):
        etcd = Etcd(self)
        node = self.start_member(etcd, "a", "etcd.ttl_s=600")
        node.kill()
        node.wait()
        self.start_member(etcd, "a", "etcd.ttl_s=600")

    def test_second_process_with_the_same_state_leaves_the_first_alone(self):
        etcd = Etcd(self)
        node = self.start_member(etcd, "a")
        record = etcd.control("get", "/farpage/farpage/nodes/a")
        second = self.run_program("node", "--listen", "tcp://127.0.0.1:0", "--state", self.folder / "a.state", "--pool-bytes", "64MiB",
                                  *self.node_words(etcd, "a"))
        self.assert_fails(second, 1, "a.state")
        self.assertEqual(etcd.control("get", "/farpage/farpage/nodes/a"), record)
        # And one whose record is lost says again that it is there.
        epoch = etcd.epoch()
        etcd.control("del", "/farpage/farpage/nodes/a")
        self.assertTrue(wait_until(lambda: etcd.control("get", "/farpage/farpage/nodes/a") == record))
        self.assertEqual(etcd.epoch(), epoch)
        self.assertIsNone(node.poll())

    def test_one_whose_name_another_has_taken_over_ends(self):
        etcd = Etcd(self)
        first = self.start_member(etcd, "a")
        stop(first.pid)
        second = self.start_program("node", "--listen", "tcp://127.0.0.1:0", "--state", self.folder / "b.state", "--pool-bytes", "64MiB",
                                    *self.node_words(etcd, "a"))
        self.line_saying(second, "waiting up to")
        second.address = re.search(r" on (\S+) \(", self.line_saying(second, "serving")).group(1)
        self.assertTrue(wait_until(lambda: self.status(second)["fleet"] is not None))
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(30), 0)
        self.assertIn("is in the fleet already", first.stderr.read())
        epoch = etcd.epoch()
        self.assertEqual(len(epoch["members"]), 1)
        self.assertEqual(int(epoch["members"][0]["incarnation"], 16), int(str(self.status(second)["incarnation"]), 16))

    def test_users_and_their_rights(self):
        etcd = Etcd(self)
        etcd.control("user", "add", "root:rootpw")
        etcd.control("user", "grant-role", "root", "root")
        etcd.control("user", "add", "farpage:right")
        etcd.control("role", "add", "farpage")
        etcd.control("role", "grant-permission", "farpage", "--prefix=true", "readwrite", "/farpage/farpage/")
        etcd.control("user", "grant-role", "farpage", "farpage")
        etcd.control("auth", "enable")
        password = self.folder / "password"
        password.write_text("wrong\n")
        password.chmod(0o600)
        user = ("etcd.user=farpage", f"etcd.password_file={password}")

        def refused(*more):
            return self.run_program("node", "--listen", "tcp://127.0.0.1:0", "--state", self.folder / "x.state", "--pool-bytes",
                                    "64MiB", *self.node_words(etcd, "x", *more))

        self.assert_fails(refused(), 1, "etcd.user")
        self.assert_fails(refused(*user), 1, "refuses 'farpage'")
        password.write_text("right\n")
        self.assert_fails(refused(*user, "etcd.fleet=other"), 1, "/farpage/other/", "role")
        self.start_member(etcd, "a", *user)
        result = self.run_program("replay", "generate", "--requests", 20, "--page-bytes", PACE.page_bytes, *self.reach(etcd, *user))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_under_tls(self):
        authority = Authority(self.folder, "etcd-ca")
        server = authority.issue("etcd-server")
        client = authority.issue("etcd-client")
        etcd = Etcd(self, scheme="https", arguments=(
            "--cert-file", server[0], "--key-file", server[1], "--client-cert-auth", "--trusted-ca-file", authority.file))
        good = (f"etcd.tls_ca={authority.file}", f"etcd.tls_certificate={client[0]}", f"etcd.tls_key={client[1]}")
        self.start_member(etcd, "a", *good)
        result = self.run_program("replay", "generate", "--requests", 20, "--page-bytes", PACE.page_bytes, *self.reach(etcd, *good))
        self.assertEqual(result.returncode, 0, result.stderr)
        plain = re.sub("https", "http", etcd.endpoints)
        self.assert_fails(self.run_program("replay", "generate", "--set", f"etcd.endpoints={plain}"), 1, "etcd")
        self.assert_fails(self.run_program("replay", "generate", *self.reach(etcd, good[0])), 1, "etcd")
        self.assert_fails(self.run_program("replay", "generate", *self.reach(etcd)), 1, "TLS")


if __name__ == "__main__":
    unittest.main()
