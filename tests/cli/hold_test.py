"""A node that is replaced, or killed, while `farpage hold` holds its pages."""

import os
import resource
import shutil
import signal
import subprocess
import unittest

from etcd import Etcd, free_ports
from faults import Steady
from fleet import PACE, EtcdFleet
from program import PATIENCE_S, PROGRAM, Case, require_root, wait_until
from tenants import Tenants


class HoldCase(Case):
    def wait_for_next_run(self, holder, before):
        def has_come():
            now = self.status(holder)
            return now is not None and now["incarnation"] != before["incarnation"]
        self.assertTrue(wait_until(has_come))
        return self.status(holder)

    def node_of(self, holder):
        with open(f"/proc/{holder.pid}/task/{holder.pid}/children", encoding="ascii") as children:
            return int(children.read().split()[0])

    def end_holder(self, holder):
        node = self.node_of(holder)
        holder.terminate()
        _, errors = holder.communicate(timeout=PATIENCE_S)
        self.assertEqual(holder.returncode, 0, errors)
        self.assertFalse(os.path.exists(f"/proc/{node}"))
        self.assert_nothing_left()
        return errors


class HoldTest(HoldCase):
    def configure(self, page_bytes):
        (self.folder / "node.toml").write_text(f"[node]\npool_bytes = {64 << 20}\npage_bytes = {page_bytes}\n")

    def hold(self, address):
        """A node of 64 MiB, held; once it serves."""
        self.configure(64 << 10)
        holder = self.start_program("hold", "--", PROGRAM, "node", "--listen", address, "--state", self.folder / "state",
                                    "--config", self.folder / "node.toml")
        holder.address = str(address)
        self.addCleanup(lambda: holder.poll() is None and holder.terminate())
        self.line_saying(holder, "serving")
        return holder

    def fill(self, holder):
        done = self.run_program("bench", "fetch", "--node", holder.address, "--page-bytes", "30KiB", "--pool-bytes", "24MiB",
                                "--seconds", 0.1)
        self.assertEqual(done.returncode, 0, done.stderr)
        before = self.status(holder)
        self.assertGreater(before["slots_live"], 500)
        return before

    def replaced_and_killed(self, address):
        """While a replay reads, and compares every byte."""
        holder = self.hold(address)
        replay = Steady(self, holder.address, puts=False)
        replay.wait_until_warm()
        for end in (lambda: holder.send_signal(signal.SIGHUP), lambda: os.kill(self.node_of(holder), signal.SIGKILL)):
            before, counts = self.status(holder), replay.metrics()
            end()
            after = self.wait_for_next_run(holder, before)
            self.assertGreaterEqual(after["slots_live"], before["slots_live"])
            self.assertGreater(after["epoch"], before["epoch"])
            replay.wait_until_back()
            missed = replay.metrics()["miss"] - counts["miss"]
            self.assertLess(missed, replay.pace.pages / 10, "of pages that were there")
        replay.result()
        self.assertRegex(self.end_holder(holder), r"recovered \d+ of \d+ pages")

    def test_pages_outlive_their_node_on_shared_memory(self):
        self.replaced_and_killed(self.folder / "n.sock")

    def test_pages_outlive_their_node_on_tcp(self):
        self.replaced_and_killed(f"tcp://127.0.0.1:{free_ports(1)[0]}")

    def test_a_node_that_is_another_one_begins_empty(self):
        holder = self.hold(self.folder / "n.sock")
        before = self.fill(holder)
        self.configure(30 << 10)
        holder.send_signal(signal.SIGHUP)
        after = self.wait_for_next_run(holder, before)
        self.assertEqual((after["slots_live"], after["page_bytes"]), (0, 30 << 10))

        self.configure(64 << 10)
        holder.send_signal(signal.SIGHUP)
        self.wait_for_next_run(holder, after)
        before = self.fill(holder)
        os.unlink(self.folder / "state")
        holder.send_signal(signal.SIGHUP)
        after = self.wait_for_next_run(holder, before)
        self.assertEqual(after["slots_live"], 0, "its epochs begin anew, and versions could be given out twice")
        self.end_holder(holder)

    def test_pages_of_an_earlier_run_than_the_last_are_not_served(self):
        holder = self.hold(self.folder / "n.sock")
        before = self.fill(holder)
        config = (self.folder / "node.toml").read_text()
        (self.folder / "node.toml").write_text("[node]\nno_such_key = 1\n")
        holder.send_signal(signal.SIGHUP)
        self.line_saying(holder, "starting it again")
        # Meanwhile a person runs it by hand, so the held pages miss these puts and removals.
        by_hand = self.start_program("node", "--listen", self.folder / "other.sock", "--state", self.folder / "state", "--pool-bytes", "64MiB")
        self.line_saying(by_hand, "serving")
        by_hand.terminate()
        by_hand.communicate(timeout=PATIENCE_S)
        (self.folder / "node.toml").write_text(config)
        after = self.wait_for_next_run(holder, before)
        self.assertEqual(after["slots_live"], 0)
        self.end_holder(holder)

    def test_what_cannot_start_is_said(self):
        self.assert_fails(self.run_program("hold"), 2, "command")
        missing = self.run_program("hold", "--", PROGRAM, "node", "--listen", "tcp://nowhere")
        self.assertEqual(missing.returncode, 2, missing.stderr)
        self.assertEqual(self.run_program("hold", "--", self.folder / "no-program").returncode, 127)
        ended = self.run_program("hold", "--", "true")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assert_nothing_left()

    def test_nobody_waits_on_a_descriptor_that_pages_come_as(self):
        held = self.run_program("hold", "--", PROGRAM, "node", "--listen", self.folder / "n.sock", "--state", self.folder / "state",
                                "--pool-bytes", "64MiB", "--ready-fd", 3)
        self.assert_fails(held, 2, "--ready-fd 3", "Leave --ready-fd out")
        self.assert_nothing_left()

    def test_a_command_that_fails_is_started_again(self):
        marks = self.folder / "marks"
        holder = self.start_program("hold", "--", "sh", "-c", f"echo started >> {marks}; test $(wc -l < {marks}) -ge 3")
        _, errors = holder.communicate(timeout=PATIENCE_S)
        self.assertEqual(holder.returncode, 0, errors)
        self.assertEqual(marks.read_text().count("started"), 3)
        self.assertEqual(errors.count("starting it again"), 2)

    def test_a_command_that_cannot_be_started_again_for_now_is_tried_again(self):
        require_root(self)  # to be a user whom limits bind
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        for folder in (self.folder, self.temporary):
            folder.chmod(0o777)
        done = self.folder / "done"
        program = shutil.copy(PROGRAM, self.folder)
        holder = subprocess.Popen([program, "hold", "--", "sh", "-c", f"test -e {done}"], stderr=subprocess.PIPE, text=True,
                                  env=self.environment, cwd=self.folder, start_new_session=True, **nobody)
        self.addCleanup(self.end, holder)
        self.line_saying(holder, "starting it again")
        _, most = resource.getrlimit(resource.RLIMIT_NPROC)
        limit = lambda processes: subprocess.run(["prlimit", "--pid", str(holder.pid), f"--nproc={processes}:"], check=True, **nobody)
        limit(0)
        self.line_saying(holder, "is tried again in 1 s, and its pages stay held")
        self.line_saying(holder, "is tried again in 2 s")
        done.touch()
        limit("unlimited" if most == resource.RLIM_INFINITY else most)
        _, errors = holder.communicate(timeout=PATIENCE_S)
        self.assertEqual(holder.returncode, 0, errors)


class HeldTenantsTest(Tenants, HoldCase):
    """A node of two tenants on tcp, held."""

    def setUp(self):
        super().setUp()
        self.two()
        address = f"tcp://127.0.0.1:{free_ports(1)[0]}"
        self.holder = self.start_program("hold", "--", PROGRAM, "node", "--listen", address, "--state", self.folder / "state",
                                         "--token-file", self.tokens["own"], "--pool-bytes", "64MiB", "--page-bytes", PACE.page_bytes,
                                         "--config", self.folder / "node.toml")
        self.holder.address = address
        self.addCleanup(lambda: self.holder.poll() is None and self.holder.terminate())
        self.line_saying(self.holder, "serving")

    def status(self, node, *words):
        return super().status(node, "--token-file", self.tokens["own"], *words)

    def held_bytes(self):
        return {tenant["name"]: tenant["held_bytes"] for tenant in self.status(self.holder)["tenants"]}

    def test_each_has_its_own_pages_again(self):
        replays = [Steady(self, self.holder.address, *self.as_tenant(name), pace=PACE, puts=False) for name in "ab"]
        for replay in replays:
            replay.wait_until_warm()
        before, held, counts = self.status(self.holder), self.held_bytes(), [replay.metrics() for replay in replays]
        os.kill(self.node_of(self.holder), signal.SIGKILL)
        after = self.wait_for_next_run(self.holder, before)
        self.assertEqual(self.held_bytes(), held)
        self.assertGreater(min(held.values()), 0)
        for replay, count in zip(replays, counts, strict=True):
            replay.wait_until_back()
            self.assertLess(replay.metrics()["miss"] - count["miss"], PACE.pages / 10, "of pages that were there")
            replay.result()

        # A tenant with b's name, but not its token, is another one.
        self.token("b", "another token of b, for this test")
        self.holder.send_signal(signal.SIGHUP)
        self.wait_for_next_run(self.holder, after)
        self.assertEqual(self.held_bytes(), {"a": held["a"], "b": 0})
        self.end_holder(self.holder)


class HeldMemberTest(EtcdFleet, HoldCase):
    """Of three nodes that are in etcd, and of which two hold each page, one is held."""

    keys = 256  # that are put again and again

    def setUp(self):
        super().setUp()
        self.etcd = Etcd(self)
        self.away = self.folder / "away"  # as long as there is this file, it does not come back
        self.nodes = {name: self.start_member(self.etcd, name) for name in "ac"}
        self.nodes["b"] = self.holder = self.hold_member("b")
        for node in self.nodes.values():
            self.assertTrue(wait_until(lambda: self.reached(node) == 2))

    def hold_member(self, name):
        address = f"tcp://127.0.0.1:{free_ports(1)[0]}"
        holder = self.start_program(
            "hold", "--", "sh", "-c", 'while [ -e "$0" ]; do sleep 0.05; done; exec "$@"', self.away, PROGRAM, "node", "--listen", address,
            "--state", self.folder / f"{name}.state", "--pool-bytes", "64MiB", *self.node_words(self.etcd, name))
        holder.address = address
        self.addCleanup(lambda: holder.poll() is None and holder.terminate())
        self.line_saying(holder, "serving")
        return holder

    def wait_until_it_has(self, live):
        """And lacks nothing."""
        def has():
            now = self.status(self.holder)
            return (now["slots_live"], now["fleet"]["to_fill"]) == (live, 0)
        self.assertTrue(wait_until(has, 60), self.status(self.holder))

    def wait_for_puts(self, count):
        """On the nodes that are not held."""
        def stored():
            return sum(self.status(self.nodes[name])["puts"] for name in "ac")
        end = stored() + count
        self.assertTrue(wait_until(lambda: stored() >= end, 60), stored())

    def test_its_pages_are_served_again(self):
        replay = Steady(self, None, *self.reach(self.etcd), pace=PACE, puts=False)
        replay.wait_until_warm()
        before = self.status(self.holder)
        self.assertGreater(before["slots_live"], 50)
        self.holder.send_signal(signal.SIGHUP)
        self.wait_for_next_run(self.holder, before)
        self.wait_until_it_has(before["slots_live"])
        # A replay compares every byte; what it missed meanwhile it put again.
        self.assertLess(self.status(self.holder)["fleet"]["filled"], before["slots_live"] / 2)
        replay.wait_until_back()
        replay.result()
        self.end_holder(self.holder)

    def test_pages_that_were_put_anew_while_it_was_away_are_not(self):
        self.replay_once(self.etcd, [list(range(300))])
        untouched = self.status(self.holder)["slots_live"]
        self.assertGreater(untouched, 100)
        puts = self.start_program("bench", "put", "--page-bytes", PACE.page_bytes, "--pool-bytes", self.keys * PACE.page_bytes, "--batch", 16,
                                  "--seconds", 600, *self.reach(self.etcd))
        self.wait_for_puts(4 * self.keys)
        before = self.status(self.holder)
        replaced = before["slots_live"] - untouched
        self.assertGreater(replaced, 100)
        self.away.touch()
        self.holder.send_signal(signal.SIGHUP)
        self.assertTrue(wait_until(lambda: self.members(self.etcd) == 2))
        self.wait_for_puts(4 * self.keys)
        puts.send_signal(signal.SIGINT)
        puts.communicate(timeout=PATIENCE_S)
        self.away.unlink()
        self.wait_for_next_run(self.holder, before)
        self.wait_until_it_has(before["slots_live"])
        self.assertEqual(self.status(self.holder)["fleet"]["filled"], replaced, "the others, and none of those, it had already")
        self.end_holder(self.holder)


if __name__ == "__main__":
    unittest.main()
