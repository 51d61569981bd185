"""The adapter for LMCache without a node: what is in its namespace, what it trusts, and what it
keeps to itself. Runs in an environment with LMCache (scripts/test-engines)."""

import asyncio
import os
import pathlib
import sys
import time
import types
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(SOURCE / "python"))
import numpy  # noqa: E402

import farpage  # noqa: E402
from farpage.engines import lmcache  # noqa: E402
from farpage.engines.lmcache import FarpageAdapter, FarpageConnector  # noqa: E402

READY, RECOMPUTE, OK = farpage.Verdict.READY, farpage.Verdict.RECOMPUTE, farpage.Code.OK
KEYS = numpy.zeros((3, 16), numpy.uint8)
LENGTH = 64  # of a page


class Ticket:
    released = True

    def __init__(self, rows):
        self.rows = rows

    def __await__(self):
        yield from ()
        return self.rows


def verdicts(*each):
    rows = numpy.zeros(len(each), farpage.ticket.VERDICT)
    rows["verdict"] = each
    return Ticket(rows)


class PartsTest(unittest.TestCase):
    def connector(self, **settings):
        with mock.patch.object(lmcache, "Connection"):
            connector = FarpageConnector(node="n", **settings)
        self.addCleanup(connector.close)
        self.client = connector._connection.client = mock.Mock()
        stored = numpy.array([(OK, 1)] * 3, farpage.ticket.PUT_RESULT)
        self.client.put.side_effect = lambda keys, memory, timeout_s: Ticket(stored)
        connector._doubtful = mock.Mock(remove=mock.AsyncMock())
        connector._doubtful.certain.return_value = numpy.ones(3, bool)
        return connector

    def store(self, connector):
        memory = [memoryview(bytearray(LENGTH)) for _ in range(3)]
        return asyncio.run(connector._store(memory, self.client, KEYS, 1.0)).tolist()

    def test_each_fact_is_in_the_namespace(self):
        others = [{name: "x"} for name in ("model", "dtype", "layout", "engine", "salt")] + [{"chunk_tokens": 16}]
        spaces = {self.connector(**other)._space.namespace for other in ({}, *others)}
        self.assertEqual(len(spaces), 1 + len(others))

    def test_lmcache_evicts_by_the_capacity_that_it_is_told_and_not_at_all_without_one(self):
        for settings, capacity_bytes in (({"max_capacity_gb": 3}, 3 << 30), ({}, 0)):
            with mock.patch.object(lmcache, "Connection"):
                adapter = FarpageAdapter({"node": "n", **settings})
            self.addCleanup(adapter.close)
            self.assertEqual(adapter.get_usage().total_capacity_bytes, capacity_bytes)

    def test_a_key_in_doubt_before_or_after_is_not_there(self):
        connector = self.connector()
        memory = [memoryview(bytearray(LENGTH)) for _ in range(3)]
        self.client.exists.side_effect = self.client.fetch.side_effect = lambda *keys, timeout_s: verdicts(READY, READY, READY)
        for work in (lambda: connector._exists(["a", "b", "c"], self.client, KEYS, 1.0), lambda: connector._load(["a"] * 3, memory, self.client, KEYS, 1.0)):
            connector._doubtful.certain.side_effect = [numpy.array([True, False, True]), numpy.array([True, True, False])]
            self.assertEqual(asyncio.run(work()).tolist(), [True, False, False])
        connector._doubtful.certain.side_effect = [numpy.array([True, True, False])]
        self.assertEqual(self.store(connector), [True, True, False])

    def test_a_key_that_was_removed_is_not_in_doubt(self):
        connector = self.connector()
        asyncio.run(connector._delete(self.client, KEYS, 1.0))
        connector._doubtful.remove.assert_awaited_once_with(self.client, KEYS, 1.0)

    def test_what_is_worth_loading_is_the_prefix_that_is_there(self):
        connector = self.connector(chunk_tokens=256)
        connector._worth, connector._page_bytes = mock.Mock(), LENGTH
        self.client.exists.return_value = verdicts(READY, RECOMPUTE, READY)
        asyncio.run(connector._exists([f"m@0@0@{chunk}" for chunk in range(3)], self.client, KEYS, 1.0))
        connector._worth.is_worth.assert_called_once_with(256, LENGTH)

    def test_stores_have_their_room_again_and_a_large_one_goes_alone(self):
        connector = self.connector(store_bytes=1)
        for _ in range(2):
            self.assertEqual(self.store(connector), [True] * 3)
        self.assertEqual(connector.counts["dropped"], 0)

    def test_nothing_is_stored_while_too_much_is_in_doubt_and_the_log_says_so_once(self):
        connector = self.connector()
        connector._doubtful.has_room.return_value = False
        with self.assertLogs("farpage", "WARNING") as said:
            for _ in range(2):
                self.assertEqual(self.store(connector), [False] * 3)
        self.client.put.assert_not_called()
        self.assertEqual((connector.counts["dropped in doubt"], len(said.output)), (6, 1))

    def test_time_that_is_over_is_none(self):
        connector, left = self.connector(), []

        async def work(client, keys, left_s):
            left.append(left_s)
            return numpy.ones(1, bool)

        asyncio.run(connector._run("lookup", 7, ["a"], time.monotonic() - 5, work))
        self.assertEqual((left, connector.drain_completions()), ([0.0], [(7, True, "", [True])]))

    def test_answers_that_wait_are_one_event(self):
        connector = self.connector()
        for number in range(3):
            connector._answer(number, True, "", [])
        self.assertEqual(os.eventfd_read(connector.event_fd()), 1)
        os.eventfd_write(connector.event_fd(), 1)
        self.assertEqual(len(connector.drain_completions()), 3)

    def test_the_end(self):
        connector, calls = self.connector(), []
        descriptor, close = connector.event_fd(), connector._loop.close
        connector._loop.close = lambda: calls.append("operations") or close()
        connector._connection.close = lambda: calls.append("client")
        connector.close()
        self.assertEqual(calls, ["operations", "client"])
        self.assertRaises(OSError, os.fstat, descriptor)
        number = connector.submit_batch_exists(["a"])
        self.assertEqual(connector.drain_completions(), [(number, False, "it is closed", [False])])

    def test_the_child_of_a_fork_leaves_the_descriptor_alone(self):
        connector = self.connector()
        descriptor = connector.event_fd()
        with mock.patch.object(lmcache, "os", types.SimpleNamespace(getpid=lambda: -1, close=os.close)):
            connector._answer(1, True, "", [])
            self.assertEqual(connector.event_fd(), -1)
        os.close(descriptor)  # which is open still


if __name__ == "__main__":
    unittest.main()
