"""vLLM's tier and processes: killed in the middle of stores, forked, ended with loads under way,
and two tiers in one. Runs in an environment with vLLM (scripts/test-engines)."""

import itertools
import os
import pathlib
import sys
import time
import unittest

import forked
import other_process
import vllm_manager
from program import Case, stop, wait_until
from vllm_pages_test import CHUNK_BYTES, CHUNKS, assert_loads, engine_of, evict, store

KILLS, KEYS = 4, 32
STORE_S = 8  # longer than farpage's own exit waits


def store_without_end(address, ready):
    engine = engine_of(address)
    for number in itertools.count():
        first = len(CHUNKS) * number % KEYS
        engine.store(list(range(first, first + len(CHUNKS))))
        engine.idle()
        if number == 0:
            ready()
        if first + len(CHUNKS) == KEYS:
            evict(engine)


def exit_with_loads_under_way(address):
    engine = engine_of(address, store_timeout_ms=1000 * STORE_S)
    store(engine, CHUNKS)
    evict(engine)
    other_process.say("stored")
    other_process.hear()  # meanwhile the node is stopped
    engine.store([100, 101])
    context = engine.request()
    with engine.lock:
        for number in CHUNKS:
            engine.manager.lookup(vllm_manager.key(number), context)
    engine.step()
    other_process.say("exits")


class VllmLifetimeTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.new_node("tcp://127.0.0.1:0")
        self.addCleanup(self.remove_regions)

    def new_node(self, listen=None, name="node"):
        return self.start_node("--page-bytes", str(CHUNK_BYTES), pool="128MiB", listen=listen, name=name)

    def test_an_engine_that_is_killed_in_the_middle_of_stores_leaves_nothing_half_stored(self):
        for node in (self.node, self.new_node(name="shm")):
            forked.killed_while(self, lambda ready, _, node=node: store_without_end(node.address, ready), KILLS)
            engine, whole = engine_of(node.address, self), 0
            for first in range(0, KEYS, len(CHUNKS)):
                whole += sum(engine.load(list(range(first, first + len(CHUNKS)))))  # which compares
            self.assertGreaterEqual(whole, len(CHUNKS))
            engine.close()

    def remove_regions(self):
        """vLLM's own, which a process leaves that does not shut down."""
        for path in pathlib.Path("/dev/shm").glob("vllm_offload_farpage-*"):
            if not os.path.exists(f"/proc/{path.name.split('-')[1]}"):
                path.unlink()

    def test_a_fork_before_the_tier_opens(self):
        def work():
            engine = engine_of(self.node.address)
            store(engine, CHUNKS)
            engine.close()

        self.assertEqual(forked.ended(self, forked.fork(self, work)), 0)
        assert_loads(engine_of(self.node.address, self), CHUNKS)

    def test_a_fork_with_the_tier_open(self):
        """What the child asks of its parent's tier is a miss, and nothing of the parent's ends."""
        engine = engine_of(self.node.address, self)
        store(engine, CHUNKS)

        def work():
            assert engine.load([500, 501]) == [False, False]
            store(engine, [600])
            engine.tier.drain_jobs()
            engine.tier.shutdown()
            assert_loads(engine_of(self.node.address), CHUNKS)

        self.assertEqual(forked.ended(self, forked.fork(self, work)), 0)
        assert_loads(engine, CHUNKS)

    def test_an_interpreter_that_exits_with_loads_under_way(self):
        child = other_process.start(self, pathlib.Path(__file__), self.node.address)
        other_process.wait_for(child, "stored")
        stop(self.node.pid)
        other_process.go_on(child)
        other_process.wait_for(child, "exits")
        begun_s = time.monotonic()
        self.assertEqual(child.wait(60), 0, child.log.read_text()[-4000:])
        self.assertLess(time.monotonic() - begun_s, STORE_S + 20)
        self.assertEqual(other_process.uncaught(child), [])

    def test_two_tiers_in_one_process_over_two_nodes(self):
        other = self.new_node(name="other")
        first, second = engine_of(self.node.address, self), engine_of(other.address, self, timeout_ms=300)
        store(first, CHUNKS)
        store(second, [100, 101])
        assert_loads(first, CHUNKS)
        assert_loads(second, [100, 101])
        self.assertEqual((first.load([100, 101]), second.load(CHUNKS[:2])), ([False] * 2, [False] * 2))
        other.kill()
        other.wait()
        self.assertTrue(wait_until(lambda: second.load([200]) == [False]))
        second.close()
        assert_loads(first, CHUNKS)


if __name__ == "__main__":
    exit_with_loads_under_way(*sys.argv[1:]) if len(sys.argv) > 1 else unittest.main()
