"""SGLang's storage and processes: killed in the middle of stores, forked, ended with loads under
way, and two storages in one. Runs in an environment with SGLang (scripts/test-engines)."""

import itertools
import pathlib
import sys
import threading
import time
import unittest

import forked
import other_process
import torch
from program import Case, stop, wait_until
from sglang_engine import PAGE_TOKENS, tokens
from sglang_pages_test import assert_loads, engine_of, pages_of
from truth import assert_bytes

KILLS, PROMPTS, PAGES = 4, 8, 8
STORE_S = 8  # longer than farpage's own exit waits


def prompt(number):
    return tokens(100_000 * (1 + number % PROMPTS), PAGES)


def store_without_end(address, ready):
    engine = engine_of(address)
    for number in itertools.count():
        engine.store(prompt(number))
        engine.host.kv_buffer.zero_()  # what a put that goes on would read
        if number == 0:
            ready()


def exit_with_loads_under_way(address):
    engine = engine_of(address, store_timeout_ms=1000 * STORE_S)
    assert engine.store(prompt(0))[2] == PAGES
    names, places = engine.hashes(prompt(0)), torch.arange(PAGES * PAGE_TOKENS)
    other_process.say("stored")
    other_process.hear()  # meanwhile the node is stopped
    # From threads that nobody waits for, as SGLang's are.
    for call in (engine.storage.batch_get_v1, engine.storage.batch_set_v1):
        threading.Thread(target=call, args=(names, places), daemon=True).start()
    wait_until(lambda: engine.storage._client.statistics().under_way >= 2)
    other_process.say("exits")


class SglangLifetimeTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.new_node("tcp://127.0.0.1:0")

    def new_node(self, listen=None, name="node"):
        return self.start_node("--page-bytes", "64KiB", pool="128MiB", listen=listen, name=name)

    def engine(self, address=None, **options):
        engine = engine_of(address or self.node.address, **options)
        self.addCleanup(engine.close)
        return engine

    def test_an_engine_that_is_killed_in_the_middle_of_stores_leaves_nothing_half_stored(self):
        for node in (self.node, self.new_node(name="shm")):
            forked.killed_while(self, lambda ready, _, node=node: store_without_end(node.address, ready), KILLS)
            engine, whole = self.engine(node.address), 0
            for number in range(PROMPTS):
                wanted = pages_of(engine, prompt(number))
                engine.host.kv_buffer.zero_()
                _, loaded, _, pages, _ = engine.load(prompt(number))
                for page, other in zip(pages[:loaded], wanted):
                    assert_bytes(torch.equal(page, other), "a page")
                whole += loaded
            self.assertGreaterEqual(whole, PAGES)
            engine.close()

    def test_a_fork_before_the_storage_opens(self):
        def work():
            engine = engine_of(self.node.address)
            assert engine.store(prompt(0))[2] == PAGES
            engine.close()

        self.assertEqual(forked.ended(self, forked.fork(self, work)), 0)
        assert_loads(self.engine(), prompt(0))

    def test_a_fork_with_the_storage_open(self):
        """What the child asks of its parent's storage is a miss at once, and nothing of the
        parent's ends."""
        engine = self.engine()
        self.assertEqual(engine.store(prompt(0))[2], PAGES)
        names, places = engine.hashes(prompt(0)), torch.arange(PAGES * PAGE_TOKENS)

        def work():
            storage, nothing = engine.storage, [False] * PAGES
            assert (storage.batch_exists(names), storage.batch_get_v1(names, places), storage.batch_set_v1(names, places)) == (0, nothing, nothing)
            storage.close()
            assert_loads(engine_of(self.node.address), prompt(0))

        self.assertEqual(forked.ended(self, forked.fork(self, work)), 0)
        assert_loads(engine, prompt(0))

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

    def test_two_storages_in_one_process_over_two_nodes(self):
        other = self.new_node(name="other")
        first, second = self.engine(), self.engine(other.address, timeout_ms=300)
        self.assertEqual((first.store(prompt(0))[2], second.store(prompt(1))[2]), (PAGES, PAGES))
        assert_loads(first, prompt(0))
        assert_loads(second, prompt(1))
        self.assertEqual((first.load(prompt(1))[0], second.load(prompt(0))[0]), (0, 0))
        other.kill()
        other.wait()
        self.assertTrue(wait_until(lambda: second.load(prompt(1))[1] == 0))
        assert_loads(first, prompt(0))
        second.close()
        assert_loads(first, prompt(0))


if __name__ == "__main__":
    exit_with_loads_under_way(*sys.argv[1:]) if len(sys.argv) > 1 else unittest.main()
