"""`farpage fleet`: who has how much to fill, and nodes that are restarted one after the other."""

import json
import os
import signal
import subprocess
import unittest

from etcd import Etcd, free_ports
from faults import Steady
from fleet import NAMES, PACE, EtcdFleet
from listening import Listening
from program import PATIENCE_S, PROGRAM, Case, stop, wait_until

# What supervises a node elsewhere: it starts the node again, empty, whenever it has ended.
SUPERVISOR = 'while :; do "$@" & echo $! >"$0"; wait; done'


class Supervised:
    def __init__(self, process, address):
        self.process, self.address = process, address


class FleetTest(EtcdFleet, Case):
    def supervise(self, etcd, name):
        address = f"tcp://127.0.0.1:{free_ports(1)[0]}"
        words = ["node", "--listen", address, "--state", self.folder / f"{name}.state", "--pool-bytes", "64MiB", *self.node_words(etcd, name)]
        process = subprocess.Popen(["sh", "-c", SUPERVISOR, self.folder / f"{name}.pid", PROGRAM, *map(str, words)], start_new_session=True,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(os.killpg, process.pid, signal.SIGTERM)
        return Supervised(process, address)

    def fleet(self, etcd, command, *arguments):
        return self.run_program("fleet", command, *arguments, *self.reach(etcd))

    def fleet_status(self, etcd):
        result = self.fleet(etcd, "status", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def incarnations(self, nodes):
        return {name: self.status(node)["incarnation"] for name, node in nodes.items()}

    def is_whole(self, etcd, count):
        result = self.fleet(etcd, "status", "--json", "-")  # an error while no node is there yet
        return result.returncode == 0 and [member["state"] for member in json.loads(result.stdout)["members"]] == ["serving"] * count

    def test_an_upgrade_loses_no_page(self):
        etcd = Etcd(self)
        nodes = {name: self.supervise(etcd, name) for name in NAMES}
        self.assertTrue(wait_until(lambda: self.is_whole(etcd, len(NAMES))))
        self.replay_once(etcd, [list(range(5000, 5400))])
        replay = Steady(self, None, *self.reach(etcd), pace=PACE, puts=False)
        replay.wait_until_warm()
        held, before, missed = sum(self.live(nodes).values()), self.incarnations(nodes), replay.metrics()["miss"]
        result = self.fleet(etcd, "upgrade", "--restart", f"kill $(cat {self.folder}/$FARPAGE_NODE.pid)")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "restarted a, b, c: all serve, and no page is left to fill\n")
        self.assertEqual([line for line in result.stderr.splitlines() if "restarting" in line],
                         [f"farpage: restarting '{name}' ({place} of 3)" for place, name in enumerate(NAMES, 1)])
        after = self.incarnations(nodes)
        self.assertFalse(set(before.values()) & set(after.values()))
        # Each node began empty, and had all of its pages from others before the next one ended.
        self.assertEqual(sum(self.live(nodes).values()), held)
        replay.wait_until_back()
        self.assertEqual(replay.metrics()["miss"], missed)
        replay.result()

    def test_status_does_not_wait_for_one_silent_node_before_it_asks_the_next(self):
        etcd = Etcd(self)
        self.start_fleet(etcd, ("a",), "cluster.replicas=1")
        silent = [Listening(self, lambda connection: None) for _ in range(3)]
        for number, node in enumerate(silent):
            etcd.control("put", f"/farpage/farpage/nodes/s{number}", json.dumps({"address": node.address, "owner": "0" * 16}))
        self.start_program("fleet", "status", *self.reach(etcd, f"client.connect_ms={10 * PATIENCE_S * 1000}"))
        self.assertTrue(wait_until(lambda: all(node.met for node in silent)))

    def test_status_shows_who_fills_and_who_is_silent(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd, ("a", "b"), "node.fill_bytes_per_s=131072")
        self.replay_once(etcd, [list(range(400))])
        self.assertTrue(self.is_whole(etcd, 2))
        nodes["c"] = self.start_member(etcd, "c", "node.fill_bytes_per_s=131072")
        fleets = []

        def fills():
            fleets.append(self.fleet_status(etcd))
            return fleets[-1]["seconds_left"] > 0
        self.assertTrue(wait_until(fills))
        fleet = fleets[-1]
        states = {member["name"]: member["state"] for member in fleet["members"]}
        self.assertEqual(states["c"], "filling")
        # 32 pages a second, of at most 400.
        self.assertLess(fleet["seconds_left"], 100)
        self.assertLess(fleet["filled_per_second"], 200)
        self.assertIn("s left\n", self.fleet(etcd, "status").stdout)
        self.assertTrue(wait_until(lambda: self.is_whole(etcd, 3), 60))
        fleet = self.fleet_status(etcd)
        self.assertEqual((fleet["to_fill"], fleet["seconds_left"], fleet["replicas"]), (0, 0, 2))
        self.assertEqual({member["name"]: member["pages"] for member in fleet["members"]}, self.live(nodes))
        nodes["b"].kill()
        silent = next(member for member in self.fleet_status(etcd)["members"] if member["name"] == "b")
        self.assertEqual(silent["state"], "silent")
        self.assertIn("'b'", silent["trouble"])

    def test_what_stops_an_upgrade_is_told(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd, ("a",), "cluster.replicas=1")
        before = self.incarnations(nodes)
        failed = self.fleet(etcd, "upgrade", "--restart", "exit 3")
        self.assert_fails(failed, 1, "node 'a' was not restarted", "exit code 3", "has finished no node")
        self.assertIn("one replica", failed.stderr)
        self.assert_fails(self.fleet(etcd, "upgrade", "--restart", "exec sleep 100", "--within-s", 1), 1, "has not ended in time")
        self.assert_fails(self.fleet(etcd, "upgrade", "--restart", "true", "--within-s", 1), 1, "the next run of node 'a' is not in the fleet yet")
        told = self.fleet(etcd, "upgrade", "--restart", 'echo "$FARPAGE_NODE at $FARPAGE_ADDRESS"', "--within-s", 1)
        self.assertIn(f"a at {nodes['a'].address}\n", told.stderr)
        self.assertEqual(told.stdout, "")
        upgrade = self.start_program("fleet", "upgrade", "--restart", "true", *self.reach(etcd))
        self.line_saying(upgrade, "restarting 'a'")
        upgrade.send_signal(signal.SIGINT)
        _, errors = upgrade.communicate(timeout=PATIENCE_S)
        self.assertEqual(upgrade.returncode, 1)
        self.assertIn("interrupted", errors)
        self.assertEqual(self.incarnations(nodes), before)

    def test_an_upgrade_begins_with_a_whole_fleet(self):
        etcd = Etcd(self)
        nodes = self.start_fleet(etcd, NAMES)
        # What waits for pages would be told before a silent node.
        self.assertTrue(wait_until(lambda: self.is_whole(etcd, len(NAMES))))
        before = self.incarnations({name: nodes[name] for name in "ac"})
        stop(nodes["b"].pid)
        self.addCleanup(nodes["b"].send_signal, signal.SIGCONT)
        result = self.fleet(etcd, "upgrade", "--restart", "exit 3", "--within-s", 1)
        self.assert_fails(result, 1, "still waits", "'b'", "has finished no node")
        self.assertNotIn("restarting", result.stderr)
        self.assertEqual(self.incarnations({name: nodes[name] for name in "ac"}), before)

    def test_which_fleet(self):
        for command in ("status",), ("upgrade", "--restart", "true"):
            self.assert_fails(self.run_program("fleet", *command), 2, "etcd.endpoints")
        self.assert_fails(self.run_program("fleet", "upgrade", "--set", "etcd.endpoints=http://127.0.0.1:1"), 2, "--restart")
        etcd = Etcd(self)
        for command in ("status",), ("upgrade", "--restart", "true"):
            failed = self.fleet(etcd, *command, "--set", "etcd.fleet=other")
            self.assert_fails(failed, 1, "no node of the fleet is in etcd below /farpage/other/", "etcd.fleet")


if __name__ == "__main__":
    unittest.main()
