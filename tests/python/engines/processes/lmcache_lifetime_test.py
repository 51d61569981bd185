"""LMCache's adapters and processes: killed in the middle of stores, forked, ended with loads under
way, and two adapters in one. Runs in an environment with LMCache (scripts/test-engines)."""

import itertools
import os
import pathlib
import signal
import sys
import time
import unittest

import forked
import lmcache_test
import numpy
import other_process
from lmcache_pages_test import Unlimited, content
from lmcache_test import CLASSES, HALF, L2, key
from program import Case, stop, wait_until

from farpage.engines.lmcache import FarpageConnector

KILLS, KEYS = 4, 64
STORE_S = 8  # longer than farpage's own exit waits
kept = []  # LMCache's memory outlives its operations, which name it by address


def l2_of(address, form="plugin", case=None, **params):
    return L2(case or Unlimited(), form, address, **{"timeout_ms": 30_000, "store_timeout_ms": 30_000, **params})


def store_without_end(address, ready):
    l2 = l2_of(address)
    for number in itertools.count():
        keys = [(number * HALF + each) % KEYS for each in range(HALF)]
        for place, each in enumerate(keys):
            l2.memory[place] = content(f"page {each}", lmcache_test.PAGE_BYTES)
        l2.store([key(each) for each in keys])
        l2.memory[:HALF] = 0  # what a put that goes on would read
        if number == 0:
            ready()


def exit_with_loads_under_way(address, form):
    l2 = l2_of(address, form, store_timeout_ms=1000 * STORE_S)
    kept.append(l2)
    keys = [key(number) for number in range(HALF)]
    assert l2.store(keys)
    other_process.say("stored")
    other_process.hear()  # meanwhile the node is stopped
    l2.adapter.submit_load_task(keys, l2.objects(range(HALF, 2 * HALF)))
    l2.adapter.submit_store_task([key(100)], l2.objects([0]))
    other_process.say("exits")


class LmcacheLifetimeTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.new_node("tcp://127.0.0.1:0")

    def new_node(self, listen=None, name="node"):
        return self.start_node("--page-bytes", "256KiB", pool="128MiB", listen=listen, name=name)

    def test_an_engine_that_is_killed_in_the_middle_of_stores_leaves_nothing_half_stored(self):
        for node in (self.node, self.new_node(name="shm")):
            forked.killed_while(self, lambda ready, _, node=node: store_without_end(node.address, ready), KILLS)
            l2 = l2_of(node.address, case=self)
            whole = 0
            for first in range(0, KEYS, HALF):
                numbers = range(first, first + HALF)
                l2.original[:HALF] = [content(f"page {number}", lmcache_test.PAGE_BYTES) for number in numbers]
                whole += sum(l2.load([key(number) for number in numbers]))  # which compares
            self.assertGreaterEqual(whole, HALF)
            l2.close()

    def test_a_fork_before_the_adapter_opens(self):
        def work():
            l2 = l2_of(self.node.address)
            assert l2.store([key(1)]) and l2.load([key(1)]) == [True]
            l2.close()

        self.assertEqual(forked.ended(self, forked.fork(self, work)), 0)
        self.assertEqual(l2_of(self.node.address, case=self).lookup([key(1)]), [True])

    def test_a_fork_with_the_adapter_open(self):
        """What the child asks of its parent's adapter is a miss at once, and nothing of the
        parent's ends or hears of it."""
        for form in CLASSES:
            l2 = l2_of(self.node.address, form, self)
            self.assertTrue(l2.store([key(1)]))
            connector = l2.connector

            def work(connector=connector, form=form):
                number = connector.submit_batch_get(["a"], [memoryview(bytearray(8))])
                assert (number, False, "it is closed", [False]) in connector.drain_completions()
                connector.close()
                own = l2_of(self.node.address, form)
                assert own.lookup([key(1)]) == [True]
                own.close()

            connector._lock.acquire()  # as a thread of the parent's may have it
            child = forked.fork(self, work)
            connector._lock.release()
            self.assertEqual(forked.ended(self, child), 0)
            with self.assertRaises(BlockingIOError):
                os.eventfd_read(connector.event_fd())
            self.assertEqual(l2.load([key(1)]), [True])
            l2.close()

    def test_an_interpreter_that_exits_with_loads_under_way(self):
        for form in CLASSES:
            with self.subTest(form=form):
                child = other_process.start(self, pathlib.Path(__file__), self.node.address, form)
                other_process.wait_for(child, "stored")
                stop(self.node.pid)
                other_process.go_on(child)
                other_process.wait_for(child, "exits")
                begun_s = time.monotonic()
                self.assertEqual(child.wait(60), 0, child.log.read_text()[-4000:])
                self.assertLess(time.monotonic() - begun_s, STORE_S + 20)
                self.assertEqual(other_process.uncaught(child), [])
                self.node.send_signal(signal.SIGCONT)

    def test_two_adapters_in_one_process_over_two_nodes(self):
        other = self.new_node(name="other")
        first, second = l2_of(self.node.address, "plugin", self), l2_of(other.address, "native_plugin", self, timeout_ms=300)
        self.assertTrue(first.store([key(1)]))
        self.assertTrue(second.store([key(2)]))
        self.assertEqual((first.lookup([key(1), key(2)]), second.lookup([key(1), key(2)])), ([True, False], [False, True]))
        other.kill()
        other.wait()
        self.assertTrue(wait_until(lambda: second.load([key(2)]) == [False]))
        self.assertEqual(first.load([key(1)]), [True])
        second.close()
        self.assertEqual(first.load([key(1)]), [True])

    def test_two_adapters_may_register_the_same_memory(self):
        memory = numpy.zeros(4096, numpy.uint8)
        connectors = [FarpageConnector(node=self.node.address, l1_memory=memory) for _ in range(2)]
        for connector in connectors:
            self.addCleanup(connector.close)
            self.assertTrue(wait_until(lambda connector=connector: connector._connection.client is not None), connector._connection.why_not)


if __name__ == "__main__":
    exit_with_loads_under_way(*sys.argv[1:]) if len(sys.argv) > 1 else unittest.main()
