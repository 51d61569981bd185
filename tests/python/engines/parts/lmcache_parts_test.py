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
import torch  # noqa: E402
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey  # noqa: E402
from lmcache.v1.memory_management import MemoryObjMetadata  # noqa: E402
from program import wait_until  # noqa: E402

import farpage  # noqa: E402
from farpage.engines import lmcache  # noqa: E402
from farpage.engines.lmcache import FarpageAdapter, FarpageConnector, Layouts, _told  # noqa: E402

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


def described(shape, dtype, **more):
    """An object of LMCache's."""
    return types.SimpleNamespace(metadata=MemoryObjMetadata(torch.Size(shape), dtype, 0, 0, 1, **more))


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

    def test_settings_that_make_no_sense_are_refused(self):
        for setting, sentence in (({"timeout_ms": "200"}, "timeout_ms is '200': give a number above 0"), ({"store_bytes": "1GiB"}, "store_bytes"),
                                  ({"start_ms": -1}, "start_ms"), ({"salt": 5}, "salt is 5: give a text")):
            with self.assertRaisesRegex(farpage.InvalidError, sentence):
                FarpageConnector(node="n", **setting)

    def test_the_log_says_once_what_lmcache_does_not_tell(self):
        told = {"engine": "vllm 0.33", "layout": "NHD", "dtype": "bfloat16"}
        for settings, sentence in (({}, "adapter_params lacks model, engine, layout, dtype, which LMCache does not tell"),
                                   ({**told, "engine": ""}, "lacks model, engine, which"), ({**told, "model": "nobody/has-this"}, "'nobody/has-this', no folder")):
            with self.assertLogs("farpage", "WARNING") as said:
                self.connector(**settings)
            self.assertEqual(len(said.output), 1)
            self.assertIn(sentence, said.output[0])
        with self.assertNoLogs("farpage", "WARNING"):
            self.connector(model=__file__, **told)
        with mock.patch.object(lmcache, "Connection"), self.assertLogs("farpage", "WARNING") as said:
            self.addCleanup(FarpageAdapter({"node": "n", "engine": "vllm 0.33", "layout": "NHD"}).close)
        self.assertIn("lacks model, which", said.output[0])  # for types come with the objects

    def test_bytes_of_which_nobody_says_what_they_are_are_told_once(self):
        objects = [described((64,), torch.uint8)]
        with self.assertLogs("farpage", "WARNING") as said:
            layouts = Layouts("")
            for number in range(2):
                layouts.of_objects([ObjectKey(b"", f"m{number}", 0)], objects)
        self.assertEqual(len(said.output), 1)
        self.assertIn('Set "dtype"', said.output[0])
        with self.assertNoLogs("farpage", "WARNING"):
            Layouts("fp8_e4m3").of_objects([ObjectKey(b"", "m", 0)], objects)
            Layouts("").of_objects([ObjectKey(b"", "m", 0)], [described((64,), torch.float16)])

    def test_a_look_up_asks_for_objects_as_they_move(self):
        layouts, keys = Layouts("x"), [ObjectKey(b"", "m", 0), ObjectKey(b"", "m", 0, 1), ObjectKey(b"", "m", 1)]
        of_16, of_8 = (f"torch.bfloat16:2x{tokens}" for tokens in (16, 8))
        told = {group: MemoryLayoutDesc([torch.Size((2, 16))], [torch.bfloat16]) for group in (0, 1)}
        self.assertEqual((layouts.of_keys(keys, told), layouts.of_keys(keys, {})), ([of_16] * 3, [""] * 3))
        # Another model, rank or group is another matter.
        encoded, (name,) = described((77,), torch.uint8), layouts.of_objects(keys[:1], [described((77,), torch.uint8)])
        self.assertEqual((name, layouts.of_keys(keys, told)), ("torch.uint8:77", [name, of_16, of_16]))
        self.assertEqual(layouts.of_keys(keys[:1], {}), [name])
        # What has moved at all may be asked for, though another moved last.
        layouts.of_objects(keys[1:], [described((2, 16), torch.bfloat16), encoded])
        layouts.of_objects(keys[1:2], [described((2, 8), torch.bfloat16)])
        self.assertEqual((layouts.of_keys(keys[1:2], told), layouts.of_keys(keys[1:2], {})), ([of_16], [of_8]))

    def test_objects_of_several_groups_of_layers_name_them_all(self):
        each = described((1,), torch.float16, shapes=[torch.Size((2, 4)), torch.Size((3,))], dtypes=[torch.float16, torch.uint8])
        self.assertEqual(Layouts("x").of_objects([ObjectKey(b"", "m", 0)], [each]), ["torch.float16:2x4;torch.uint8:3"])

    def test_layouts_are_part_of_the_name_and_of_nothing_else(self):
        connector, asked = self.connector(), []
        connector._space = mock.Mock(keys=lambda names: asked.append(names) or KEYS)
        _told(["a", "b"], connector.submit_batch_exists, ["m@0@0@1", "m@0@0@2"])
        connector.submit_batch_exists(["m@0@0@3"])
        self.assertTrue(wait_until(lambda: len(asked) == 2))
        self.assertEqual(asked, [["m@0@0@1\0a", "m@0@0@2\0b"], ["m@0@0@3"]])

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
        self.assertIn("65,536 stores had no answer; storing resumes", said.output[0])
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
