"""Farpage as LMCache's L2, in both forms, on LMCache's own code: its adapters, `lmcache bench l2`
and its fault injector. Runs in an environment with LMCache (scripts/test-engines)."""

import os
import pathlib
import select
import signal
import sys
import threading
import time
import types
import unittest
from unittest import mock

os.environ.update(LMCACHE_TRACK_USAGE="false", LMCACHE_DISABLE_BANNER="1")
PYTHON = pathlib.Path(__file__).resolve().parents[3] / "python"
sys.path.insert(0, str(PYTHON))
import numpy  # noqa: E402
import torch  # noqa: E402
from lmcache.v1.distributed.api import ObjectKey  # noqa: E402
from lmcache.v1.distributed.internal_api import L1MemoryDesc  # noqa: E402
from lmcache.v1.distributed.l2_adapters import create_l2_adapter  # noqa: E402
from lmcache.v1.distributed.l2_adapters.config import get_l2_adapter_config_class  # noqa: E402
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata  # noqa: E402
from lmcache.v1.memory_management import TensorMemoryObj as Object  # noqa: E402
from program import Case, stop, stop_node, wait_until  # noqa: E402
from truth import assert_bytes  # noqa: E402

import farpage  # noqa: E402
from farpage.engines import doubtful  # noqa: E402
from farpage.engines.lmcache import FarpageConnector  # noqa: E402
from farpage.engines.settings import check_version  # noqa: E402

CLASSES = {"plugin": "FarpageAdapter", "native_plugin": "FarpageConnector"}
PAGE_BYTES, PAGES = 64 << 10, 16  # in L1: half of them to store from, half to load to
HALF = PAGES // 2
DEADLINE_S = 0.3
PATIENCE_S = 60
WATCHDOG_S = 30  # of what would not end: the test of deadlines has a clock of its own


def key(number, model="m", rank=0, salt=""):
    return ObjectKey(chunk_hash=number.to_bytes(16, "big"), model_name=model, kv_rank=rank, cache_salt=salt)


def spec(form, node, **params):
    return {"type": form, "module_path": "farpage.engines.lmcache", "class_name": CLASSES[form], "adapter_params": {"node": node, **params}}


class HeldTicket:
    """One whose memory is in use until `may_go`. `looks`: how often it was asked for that."""

    def __init__(self, ticket):
        self.ticket, self.may_go, self.looks = ticket, False, 0

    def __await__(self):
        return self.ticket.__await__()

    @property
    def released(self):
        self.looks += 1
        return self.may_go

    def why(self):
        return self.ticket.why()


class ThrowingTicket:
    """One that has no result. `waited`: whether its memory was asked for."""

    def __init__(self, ticket, waited):
        self.ticket, self.waited = ticket, waited

    def __await__(self):
        raise ZeroDivisionError

    @property
    def released(self):
        if self.ticket.released:
            self.waited.append(True)
        return self.ticket.released


class L2:
    """An adapter as LMCache's factory makes it, over an L1 of 16 pages."""

    def __init__(self, case, form, node, wrapped=None, **params):
        self.memory = numpy.random.default_rng(1).integers(0, 256, (PAGES, PAGE_BYTES), numpy.uint8)
        self.original = self.memory.copy()
        params = {"timeout_ms": 1000 * DEADLINE_S, "store_timeout_ms": 2000, "model": __file__, "engine": "none", "layout": "none", "dtype": "uint8", **params}
        config = {**(wrapped or {}), "inner": spec(form, node, **params)} if wrapped else spec(form, node, **params)
        described = L1MemoryDesc(ptr=self.memory.ctypes.data, size=self.memory.nbytes, align_bytes=4096)
        self.adapter = create_l2_adapter(get_l2_adapter_config_class(config["type"]).from_dict(config), l1_memory_desc=described)
        inner = getattr(self.adapter, "_inner", self.adapter)
        self.connector = inner._client
        self.is_closed = False
        self.dtype, self.shape = torch.uint8, (PAGE_BYTES,)  # of an object
        case.addCleanup(self.close)

    def close(self):
        if not self.is_closed:
            self.is_closed = True
            self.adapter.close()

    def objects(self, places):
        tensor = torch.from_numpy(self.memory)
        return [Object(tensor[place], MemoryObjMetadata(
            shape=torch.Size(self.shape), dtype=self.dtype, address=place * PAGE_BYTES, phy_size=PAGE_BYTES, fmt=MemoryFormat.KV_2LTD,
            ref_count=1), parent_allocator=None) for place in places]

    @staticmethod
    def until(descriptor, ask):
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if poller.poll(100):
                os.eventfd_read(descriptor)
            answer = ask()
            if answer is not None:
                return answer
        raise AssertionError("LMCache was not answered")

    def store(self, keys):
        """The first pages of L1."""
        task, ended = self.adapter.submit_store_task(keys, self.objects(range(len(keys)))), {}

        def ask():
            ended.update(self.adapter.pop_completed_store_tasks())
            return ended.get(task)

        return self.until(self.adapter.get_store_event_fd(), ask).is_successful()

    def lookup(self, keys, layouts=None):
        """LMCache tells with it what its objects are, by group of layers."""
        task = self.adapter.submit_lookup_and_lock_task(keys, layouts or {0: types.SimpleNamespace(shapes=[torch.Size(self.shape)], dtypes=[self.dtype])})
        found = self.until(self.adapter.get_lookup_and_lock_event_fd(), lambda: self.adapter.query_lookup_and_lock_result(task))
        self.adapter.submit_unlock(keys)
        return [found.test(place) for place in range(len(keys))]

    def load(self, keys, pages=None):
        """Into the second half; what loaded has its bytes, those of `pages`, 0, 1, … by default."""
        pages = list(range(len(keys))) if pages is None else pages
        self.memory[HALF:] = 0
        task = self.adapter.submit_load_task(keys, self.objects(range(HALF, HALF + len(keys))))
        bitmap = self.until(self.adapter.get_load_event_fd(), lambda: self.adapter.query_load_result(task))
        loaded = [bitmap.test(place) for place in range(len(keys))]
        for place, is_loaded in enumerate(loaded):
            assert_bytes(not is_loaded or (self.memory[HALF + place] == self.original[pages[place]]).all(), f"page {place}")
        return loaded


class LmcacheTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.node_listening()

    def node_listening(self, listen=None, name="node"):
        return self.start_node("--page-bytes", "256KiB", pool="128MiB", listen=listen, name=name)

    def both_forms(self):
        for form in CLASSES:
            with self.subTest(form=form):
                yield form

    def name(self, key):
        """As the adapter has it, with the layout of L2.objects()."""
        return f"m@00000000@0@{key.chunk_hash.hex()}\0torch.uint8:{PAGE_BYTES}"

    def wait_until_unreachable(self, l2):
        """Over shm a node is read for as long as the view's lease lasts."""
        into = numpy.zeros(PAGE_BYTES, numpy.uint8)
        client = l2.connector._connection.client
        self.assertTrue(wait_until(lambda: client.fetch(b"x" * 16, into, timeout_s=0.1).wait()["reason"][0] != farpage.Reason.MISS))

    # ---- As LMCache calls it

    def test_pages_come_back_in_both_forms_and_each_has_its_own(self):
        """LMCache tells `native_plugin` nothing of shapes and types."""
        keys, more = [key(number) for number in range(4)], [key(9)]
        for form in self.both_forms():
            l2 = L2(self, form, str(self.node.socket))
            self.assertEqual(l2.load(keys), [False] * 4)
            self.assertTrue(l2.store(keys))
            self.assertEqual(l2.lookup(keys + more), [True] * 4 + [False])
            self.assertEqual(l2.load(keys + more), [True] * 4 + [False])
            l2.adapter.delete([keys[3], key(8)])
            self.assertEqual(l2.lookup(keys), [True] * 3 + [False])
            l2.close()

    def test_a_page_of_another_length_is_no_hit(self):
        for form in self.both_forms():
            connector = FarpageConnector(node=str(self.node.socket))
            self.addCleanup(connector.close)
            memory = memoryview(bytearray(2 * PAGE_BYTES))
            self.assertEqual(self.answer(connector, connector.submit_batch_set(["a", "b"], [memory[:4096], memory[4096:8192]]))[3], [True, True])
            number = connector.submit_batch_get(["a", "b"], [memory[:4096], memory[8192:]])
            self.assertEqual(self.answer(connector, number)[1:], (True, "", [True, False]))

    def answer(self, connector, number):
        found = []

        def ask():
            found.extend(each for each in connector.drain_completions() if each[0] == number)
            return found

        self.assertTrue(wait_until(ask))
        return found[0]

    def test_each_key_has_its_answer(self):
        for form in self.both_forms():
            l2 = L2(self, form, str(self.node.socket))
            keys = [key(number, model=form) for number in range(6)]
            self.assertTrue(l2.store(keys))
            l2.adapter.delete([keys[1], keys[4]])
            self.assertEqual(l2.load(keys), [True, False, True, True, False, True])
            self.assertEqual(l2.connector.counts["miss"], 2)

    def test_an_answer_waits_until_nothing_touches_the_memory(self):
        connector = FarpageConnector(node=str(self.node.socket))
        self.addCleanup(connector.close)
        memory = [memoryview(bytearray(4096))]
        for operation, call in (("put", connector.submit_batch_set), ("fetch", connector.submit_batch_get)):
            begin, held = getattr(farpage.Client, operation), []

            def hold(*arguments, begin=begin, held=held, **more):
                held.append(HeldTicket(begin(*arguments, **more)))
                return held[0]

            with self.subTest(operation), mock.patch.object(farpage.Client, operation, hold):
                number = call(["a"], memory)
                self.assertTrue(wait_until(lambda held=held: held and held[0].looks))
                self.assertEqual(connector.drain_completions(), [])
                held[0].may_go = True
                self.assertEqual(self.answer(connector, number)[3], [True])

    def test_behind_lmcache_s_fault_injector(self):
        l2 = L2(self, "plugin", str(self.node.socket), wrapped={"type": "fault_inject", "gap_indices": [2]})
        keys = [key(number) for number in range(5)]
        self.assertTrue(l2.store(keys))
        self.assertEqual(l2.lookup(keys), [True] * 5)
        self.assertEqual(l2.load(keys), [True, True, False, True, True])

    def test_the_descriptor_is_quiet_once_it_was_drained(self):
        connector = FarpageConnector(node=str(self.node.socket))
        self.addCleanup(connector.close)
        poller = select.poll()
        poller.register(connector.event_fd(), select.POLLIN)
        self.assertEqual(poller.poll(0), [])
        for _ in range(3):
            numbers = {connector.submit_batch_exists([str(each)]) for each in range(20)}
            ended = set()
            while numbers - ended:
                self.assertTrue(poller.poll(1000 * PATIENCE_S))
                ended |= {each[0] for each in connector.drain_completions()}
            self.assertEqual((poller.poll(0), connector.drain_completions()), ([], []))

    def test_memory_is_registered_once(self):
        l2 = L2(self, "plugin", str(self.node.socket))
        self.assertTrue(l2.store([key(1)]))
        regions = l2.connector._connection.client._regions._sorted[1]
        self.assertEqual([(region.address, region.bytes) for region in regions], [(l2.memory.ctypes.data, l2.memory.nbytes)])

    # ---- Faults

    def test_a_stopped_node_costs_no_more_than_the_deadline(self):
        tcp = self.node_listening("tcp://127.0.0.1:0", "tcp")
        for node in (self.node, tcp):
            l2 = L2(self, "plugin", node.address)
            keys = [key(number) for number in range(HALF)]
            self.assertTrue(l2.store(keys))
            stop(node.pid)
            self.wait_until_unreachable(l2)
            for ask in (l2.load, l2.lookup, l2.load):
                begun = time.monotonic()
                self.assertEqual(ask(keys), [False] * HALF)
                self.assertLess(time.monotonic() - begun, WATCHDOG_S)
            node.send_signal(signal.SIGCONT)
            self.assertTrue(wait_until(lambda: l2.load(keys) == [True] * HALF))

    def test_the_deadline_ends_a_load(self):
        """Before the client gives up the connection, which takes it longer."""
        tcp = self.node_listening("tcp://127.0.0.1:0", "tcp")
        l2 = L2(self, "plugin", tcp.address)
        keys = [key(number) for number in range(HALF)]
        self.assertTrue(l2.store(keys))

        def stalls():
            self.assertTrue(wait_until(lambda: l2.load(keys) == [True] * HALF))
            before = l2.connector.counts["stalled"]
            stop(tcp.pid)
            begun = time.monotonic()
            self.assertEqual(l2.load(keys), [False] * HALF)
            took_s = time.monotonic() - begun
            tcp.send_signal(signal.SIGCONT)
            self.assertLess(took_s, WATCHDOG_S)
            return l2.connector.counts["stalled"] == before + HALF

        self.assertTrue(wait_until(stalls))

    def test_a_dead_node_is_a_miss_and_one_that_comes_back_is_used(self):
        for form in self.both_forms():
            l2 = L2(self, form, str(self.node.socket))
            keys = [key(number) for number in range(4)]
            self.assertTrue(wait_until(lambda: l2.store(keys)))
            self.node.kill()
            self.node.wait()
            self.wait_until_unreachable(l2)
            begun = time.monotonic()
            self.assertEqual(l2.load(keys), [False] * 4)
            self.assertLess(time.monotonic() - begun, WATCHDOG_S)
            self.assertFalse(l2.store([key(10)]))
            self.node = self.node_listening()
            self.assertTrue(wait_until(lambda: l2.store(keys)))
            self.assertEqual(l2.load(keys), [True] * 4)

    def test_a_store_that_failed_is_never_visible(self):
        l2 = L2(self, "plugin", str(self.node.socket), store_timeout_ms=500)
        self.assertTrue(l2.store([key(0)]))
        keys = [key(number) for number in range(4)]
        stop(self.node.pid)
        self.assertFalse(l2.store(keys))
        self.node.send_signal(signal.SIGCONT)
        visible = []

        def removed():
            visible.extend(l2.load(keys))
            visible.extend(l2.lookup(keys))
            return not l2.connector._doubtful._keys

        self.assertTrue(wait_until(removed))
        client, space = l2.connector._connection.client, l2.connector._space
        names = space.keys([self.name(each) for each in keys])
        self.assertFalse((client.exists(names, timeout_s=PATIENCE_S).wait()["verdict"] == farpage.Verdict.READY).any())
        self.assertNotIn(True, visible, "wrong bytes: those of a store that failed")
        self.assertTrue(wait_until(lambda: l2.store(keys)))
        self.assertEqual(l2.load(keys), [True] * 4)

    def test_a_key_in_doubt_is_not_loaded_until_it_is_stored_again(self):
        l2 = L2(self, "plugin", str(self.node.socket))
        self.assertTrue(l2.store([key(0), key(1)]))
        in_doubt, name = l2.connector._doubtful, l2.connector._space.key(self.name(key(0)))
        names = numpy.frombuffer(name, numpy.uint8).reshape(1, -1)
        in_doubt.put(names, numpy.array([False]), numpy.array([True]))  # while nothing is under way
        self.assertEqual(l2.load([key(0), key(1)]), [False, True])
        self.assertTrue(wait_until(lambda: not in_doubt._keys))
        self.assertEqual(l2.lookup([key(0), key(1)]), [False, True])
        self.assertTrue(l2.store([key(0)]))
        self.assertEqual(l2.load([key(0), key(1)]), [True, True])

    def test_stores_go_on_once_the_nodes_have_removed_those_without_an_answer(self):
        """However many these were, and though nobody asks for them again."""
        with mock.patch.object(doubtful, "MOST", 4):
            l2 = L2(self, "plugin", str(self.node.socket), store_timeout_ms=500)
            stop_node(self, self.node)
            self.assertFalse(l2.store([key(number) for number in range(4)]))
            with self.assertLogs("farpage", "WARNING") as log:
                self.assertFalse(l2.store([key(9)]))
            self.assertIn("dropped in doubt: 4 stores had no answer; storing resumes when the nodes have removed those pages", log.output[0])
            self.assertEqual((l2.connector.counts["dropped in doubt"], l2.connector.counts["dropped"]), (1, 0))
            self.node.send_signal(signal.SIGCONT)
            self.assertTrue(wait_until(lambda: l2.store([key(9)])))
            self.assertEqual(l2.load([key(9)]), [True])

    def test_a_ticket_that_throws_is_a_key_that_failed(self):
        """And its memory is LMCache's own again before LMCache hears of it."""
        l2 = L2(self, "plugin", str(self.node.socket))
        self.assertTrue(l2.store([key(0)]))
        client = l2.connector._connection.client
        for name, call in (("fetch", lambda: l2.load([key(0)])), ("put", lambda: [l2.store([key(0)])]), ("exists", lambda: l2.lookup([key(0)]))):
            begin, waited = getattr(client, name), []
            for thrown in (lambda *given, **more: 1 / 0, lambda *given, begin=begin, waited=waited, **more: ThrowingTicket(begin(*given, **more), waited)):
                with mock.patch.object(client, name, thrown):
                    self.assertEqual(call(), [False], name)
            self.assertEqual(waited, [] if name == "exists" else [True], name)

    def test_stores_that_come_too_fast_are_dropped(self):
        l2 = L2(self, "plugin", str(self.node.socket), store_bytes=PAGE_BYTES)
        stop_node(self, self.node)
        tasks = [l2.adapter.submit_store_task([key(number)], l2.objects([number])) for number in range(3)]
        ended = {}

        def all_ended():
            ended.update(l2.adapter.pop_completed_store_tasks())
            return len(ended) == len(tasks)

        self.assertTrue(wait_until(all_ended))
        self.node.send_signal(signal.SIGCONT)
        self.assertEqual([ended[task].is_successful() for task in tasks], [False] * 3)
        self.assertEqual(l2.connector.counts["dropped"], 2)

    def test_close_with_operations_under_way(self):
        tcp = self.node_listening("tcp://127.0.0.1:0", "tcp")
        before = set(os.listdir("/proc/self/task"))
        for form in self.both_forms():
            for node in (self.node, tcp):
                l2 = L2(self, form, node.address, store_timeout_ms=500)
                keys = [key(number) for number in range(HALF)]
                wait_until(lambda: l2.store(keys))
                stop(node.pid)
                l2.adapter.submit_load_task(keys, l2.objects(range(HALF, PAGES)))
                l2.adapter.submit_store_task([key(70 + number) for number in range(HALF)], l2.objects(range(HALF)))
                l2.adapter.submit_lookup_and_lock_task(keys, {})
                begun = time.monotonic()
                l2.close()
                took_s = time.monotonic() - begun
                l2.memory[:] = 7
                node.send_signal(signal.SIGCONT)
                self.assertLess(took_s, WATCHDOG_S)
                assert_bytes((l2.memory == 7).all(), "memory that a load wrote after it had ended")
                number = l2.connector.submit_batch_get(["a"], [memoryview(bytearray(8))])
                self.assertIn((number, False, "it is closed", [False]), l2.connector.drain_completions())
        self.assertTrue(wait_until(lambda: set(os.listdir("/proc/self/task")) <= before), os.listdir("/proc/self/task"))

    def test_without_a_node_everything_is_a_miss_until_one_comes(self):
        self.node.kill()
        self.node.wait()
        for form in self.both_forms():
            with self.assertLogs("farpage", "WARNING") as log:
                l2 = L2(self, form, str(self.folder / f"{form}.sock"))
                self.assertEqual(l2.lookup([key(1)]), [False])
                self.assertFalse(l2.store([key(1)]))
                self.assertEqual(l2.load([key(1)]), [False])
            self.assertEqual(len(log.output), 1, log.output)
            self.node_listening(name=form)
            self.assertTrue(wait_until(lambda: l2.store([key(1)])))
            self.assertEqual(l2.load([key(1)]), [True])

    def test_buffers_that_farpage_refuses_are_no_exceptions(self):
        connector = FarpageConnector(node=str(self.node.socket))
        self.addCleanup(connector.close)
        memory = memoryview(bytearray(8192))
        with self.assertLogs("farpage", "WARNING"):
            for buffers in ([memory[:4096], memory[2048:6144]], [memory], [memory[:0], memory], [1, 2]):
                number = connector.submit_batch_get(["a", "b"], buffers)
                found = self.answer(connector, number)
                self.assertEqual((found[1], found[3]), (False, [False, False]), found)
                self.assertTrue(found[2])
            longer_than_a_page = memoryview(bytes(512 << 10))
            number = connector.submit_batch_set(["a", "b"], [memory[:8], longer_than_a_page])
            self.assertEqual(self.answer(connector, number)[3], [True, False])

    def test_any_exception_is_an_answer_and_time_counts_from_the_submission(self):
        connector = FarpageConnector(node=str(self.node.socket), timeout_ms=2000, store_timeout_ms=9000)
        self.addCleanup(connector.close)
        here, client, memory = threading.current_thread(), mock.Mock(), [memoryview(bytearray(8))]
        # Each waits for 1.5 s until the adapter's own thread takes it.
        clock = types.SimpleNamespace(monotonic=lambda: 0.0 if threading.current_thread() is here else 1.5)
        calls = {"exists": connector.submit_batch_exists, "remove": connector.submit_batch_delete, "fetch": connector.submit_batch_get,
                 "put": connector.submit_batch_set}
        left_s = {}
        with mock.patch.object(connector._connection, "client", client), mock.patch("farpage.engines.lmcache.time", clock), \
                self.assertLogs("farpage", "WARNING"):
            for name, call in calls.items():
                getattr(client, name).side_effect = RuntimeError("anything")
                number = call(["a"], memory) if name in ("fetch", "put") else call(["a"])
                self.assertEqual(self.answer(connector, number)[1:], (False, "RuntimeError('anything')", [False]), name)
                left_s[name] = getattr(client, name).call_args.kwargs["timeout_s"]
        self.assertEqual(left_s, {"exists": 0.5, "remove": 7.5, "fetch": 0.5, "put": 7.5})

    def test_an_unknown_version_is_refused(self):
        with self.assertRaisesRegex(farpage.InvalidError, "use 0.5.6, or set .allow_untested"):
            check_version("LMCache", "0.5.5", False)
        check_version("LMCache", "0.6.1", True)
        check_version("LMCache", "0.5.6.post1", False)
        with mock.patch("lmcache.__version__", "0.6.1"):
            with self.assertRaisesRegex(farpage.InvalidError, "allow_untested"):
                FarpageConnector(node=str(self.node.socket))
            FarpageConnector(node=str(self.node.socket), allow_untested=True).close()


if __name__ == "__main__":
    unittest.main()
