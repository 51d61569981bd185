"""FarpageTier under vLLM's own TieringOffloadingManager, over its own shared region: without a
model and a GPU, in an environment that has vLLM (scripts/test-engines)."""

import dataclasses
import os
import signal
import time
import types
import unittest
from unittest import mock

import numpy
from program import stop, stop_node, wait_until
from vllm.v1.kv_offload.base import RequestOffloadingContext
from vllm_manager import CHUNK_BYTES, CHUNKS, MISS, PATIENT_MS, RETRY, Engine, ManagerCase, ReqContext, ScheduleEndContext, farpage, key

from farpage.engines.settings import check_version
from farpage.engines.vllm import space_of

DEADLINE_S, SLACK_S = 0.2, 10  # what a busy machine adds to one operation


class FaultyTicket:
    def __init__(self, ticket):
        self.ticket = ticket

    def __getattr__(self, name):
        return getattr(self.ticket, name)

    def result(self):
        raise RuntimeError("anything")


class Broken:
    def __getattr__(self, name):
        raise RuntimeError("anything")


class VllmTierTest(ManagerCase):
    def wait_until_unreachable(self, engine):
        """Over shm a node is read for as long as the view's lease lasts."""
        client, into = engine.tier._connection.client, numpy.zeros(CHUNK_BYTES, numpy.uint8)
        self.assertTrue(wait_until(lambda: client.fetch(b"x" * 16, into, timeout_s=0.1).wait()["reason"][0] == farpage.Reason.UNREACHABLE))

    def test_evicted_chunks_come_back(self):
        engine = self.stored()
        for first in range(0, 3 * CHUNKS, 4):
            self.assertEqual(engine.load(list(range(first, first + 4))), [True] * 4)
        self.assertEqual(engine.load([1000]), [False])
        counts = engine.tier._transfers.counts
        self.assertEqual(counts["stored"], 3 * CHUNKS)
        self.assertGreaterEqual(counts["ready"], 2 * CHUNKS)
        stats = engine.manager.get_stats().data
        self.assertIn("vllm:kv_offload_farpage_pages", str(stats))

    def test_another_engine_finds_them(self):
        self.stored().close()
        self.assertEqual(self.engine().load([0, 1, 2, 3]), [True] * 4)

    def test_other_facts_never_find_them(self):
        self.stored().close()
        for facts in ({"model": "n"}, {"dtype": "float16"}, {"rank": 1}, {"blocks": 32}, {"salt": "x"}):
            self.assertEqual(self.engine(**facts).load([0, 1]), [False, False], f"wrong bytes: those of {facts}")

    def test_each_fact_is_in_the_namespace(self):
        config = self.engine().spec.config
        (group,), parallel, cache = config.groups, config.parallel, config.cache
        others = [{"parallel": dataclasses.replace(parallel, **{name: getattr(parallel, name) + 1})}
                  for name in ("rank", "world_size", "tp_size", "pp_size", "pcp_size", "dcp_size")]
        others += [{"groups": (dataclasses.replace(group, layer_names=("l1",)),)}, {"groups": (group, dataclasses.replace(group, group_id=1))},
                   {"groups": (dataclasses.replace(group, tokens_per_block=99),)}, {"model": dataclasses.replace(config.model, dtype="float16")},
                   {"cache": dataclasses.replace(cache, tokens_per_hash=99)}, {"cache": dataclasses.replace(cache, blocks_per_chunk=99)}]
        spaces = [space_of(types.SimpleNamespace(config=dataclasses.replace(config, **other)), None, "", "").namespace for other in [{}, *others]]
        spaces.append(space_of(types.SimpleNamespace(config=config), None, "FullAttentionSpec(num_head_slots=2)", "").namespace)
        self.assertEqual(len(set(spaces)), len(spaces))

    def test_loads_and_stores_have_their_own_time(self):
        engine, given = self.engine(store_timeout_ms=7000), {}
        for call in ("put", "fetch"):
            def note(*arguments, call=call, begin=getattr(farpage.Client, call), timeout_s, **more):
                given[call] = timeout_s
                return begin(*arguments, timeout_s=timeout_s, **more)
            patch = mock.patch.object(farpage.Client, call, note)
            patch.start()
            self.addCleanup(patch.stop)
        engine.store([0, 1])
        self.assertEqual(self.engine().load([0, 1]), [True] * 2)
        self.assertTrue(6 < given["put"] <= 7 < 20 < given["fetch"] <= PATIENT_MS / 1000, given)

    def test_a_page_that_is_gone_ends_the_load_of_it_alone(self):
        engine = self.stored()
        client, space = engine.tier._connection.client, engine.tier._space
        context = engine.request()
        keys = [key(number) for number in range(4)]
        with engine.lock:
            self.assertEqual({engine.manager.lookup(each, context) for each in keys}, {RETRY})
        engine.step()
        self.assertTrue(wait_until(lambda: engine.tier._lookups.take() or not engine.tier._lookups.is_waiting))
        client.remove(space.keys([keys[2]])).wait()  # between the lookup and the load
        engine.finish(context)
        self.assertEqual(engine.load([0, 1, 2, 3]), [True, True, False, True])

    def test_a_stopped_node_is_a_miss_in_time(self):
        engine = self.stored(timeout_ms=100)
        stop(self.node.pid)
        self.wait_until_unreachable(engine)
        begun = time.monotonic()
        self.assertEqual(engine.load([0, 1, 2, 3]), [False] * 4)
        self.assertLess(time.monotonic() - begun, PATIENT_MS / 1000)
        self.node.send_signal(signal.SIGCONT)

    def test_a_node_that_stops_in_a_load_costs_no_more_than_the_time_for_it(self):
        """Over TCP, where nothing can be read of a node that is silent."""
        node = self.start_node("--page-bytes", "2MiB", pool="256MiB", listen="tcp://127.0.0.1:0", name="tcp")
        stored = Engine(self, node=node.address)
        stored.connect(self)
        stored.store(range(4))
        self.assertTrue(stored.idle())
        engine = Engine(self, node=node.address, timeout_ms=1000 * DEADLINE_S)
        engine.connect(self)
        tier, client = engine.tier, engine.tier._connection.client
        fetch, submit, finished = client.fetch, tier.submit_load, tier.get_finished_jobs
        given, begun_s, ended = [], [], []

        def submit_load(job):
            begun_s.append(time.monotonic())
            stop_node(self, node)
            submit(job)

        client.fetch = lambda keys, pages, *, timeout_s: given.append(timeout_s) or fetch(keys, pages, timeout_s=timeout_s)
        tier.submit_load = submit_load
        tier.get_finished_jobs = lambda: [ended.append((time.monotonic(), job)) or job for job in finished()]

        def stalls():
            node.send_signal(signal.SIGCONT)
            for each in (given, begun_s, ended):
                each.clear()
            hits = engine.settled_prefix(range(4), engine.request())
            if given:
                self.assertEqual(hits, 0)
            return bool(given)  # or the question had no answer in time, on a busy machine

        self.assertTrue(wait_until(stalls))
        ((ended_s, job),) = ended
        self.assertEqual((len(given), job.success, job.successful_keys), (1, False, ()))
        self.assertTrue(0 < given[0] <= DEADLINE_S, given)
        self.assertLess(ended_s - begun_s[0], DEADLINE_S + SLACK_S)
        counts = tier._transfers.counts
        self.assertEqual((counts["ready"], counts["stalled"] + counts["unreachable"] >= 4), (0, True), counts)

    def test_no_exception_reaches_vllm(self):
        engine = self.stored()
        client, numbers = engine.tier._connection.client, iter(range(100, 104))
        with self.assertLogs("farpage", "ERROR") as said:
            for name in ("exists", "fetch", "put"):
                begin = getattr(client, name)
                for fault in (mock.Mock(side_effect=RuntimeError("anything")), lambda *given, begin=begin, **more: FaultyTicket(begin(*given, **more))):
                    with mock.patch.object(client, name, fault):
                        if name == "put":
                            engine.store([next(numbers), next(numbers)])
                            self.assertTrue(engine.idle())
                        else:
                            self.assertEqual(engine.load([0, 1]), [False, False])
        self.assertEqual(len(said.output), 3, said.output)  # one of a lookup, a load and a store
        self.assertEqual(engine.load([0, 1]), [True, True])
        self.assertTrue(engine.idle())

    def test_whatever_fails_has_an_answer(self):
        tier, context = self.engine().tier, ReqContext("r")
        calls = {"lookup": ((key(0), context), MISS), "submit_load": ((Broken(),), None), "submit_store": ((Broken(),), None), "get_finished_jobs": ((), ()),
                 "on_request_finished": ((context,), None), "on_schedule_end": ((ScheduleEndContext((), ()),), None), "get_stats": ((), None),
                 "has_pending_work": ((), False), "on_new_request": ((context,), RequestOffloadingContext()), "drain_jobs": ((), None)}
        with mock.patch.multiple(tier, _lookups=Broken(), _transfers=Broken(), _gathered=Broken(), _running=Broken()), self.assertLogs("farpage", "ERROR") as said:
            for name, (arguments, answer) in calls.items():
                self.assertEqual(getattr(tier, name)(*arguments), answer, name)
        # Answers are taken for themselves.
        self.assertEqual(len(said.output), len(calls) + 1, said.output)

    def test_a_job_that_cannot_be_submitted_ends(self):
        engine, numbers = self.stored(), iter(range(100, 102))
        with self.assertLogs("farpage", "ERROR"):
            for what in ("names", "left_s"):
                with mock.patch.object(engine.tier._lookups, what, side_effect=RuntimeError("anything")):
                    engine.store([next(numbers)])
                    self.assertEqual(engine.load([0, 1]), [False, False])
                    self.assertTrue(engine.idle())

    def test_pages_that_cannot_be_announced_are_loaded_all_the_same(self):
        engine = self.stored(ahead={"pages": 8})
        for broken in (mock.patch.object(engine.tier._connection.client, "announce", side_effect=RuntimeError("anything")),
                       mock.patch.object(engine.tier, "_most_announced", 0.5)):
            with broken, self.assertLogs("farpage", "ERROR"):
                self.assertEqual(engine.load([0, 1]), [True, True])
            engine.evict()

    def test_a_request_that_nothing_asks_for_waits_no_longer_than_its_time(self):
        engine = self.stored(timeout_ms=1000 * DEADLINE_S)
        with mock.patch.object(engine.tier, "on_schedule_end"):
            begun_s = time.monotonic()
            self.assertEqual(engine.load([0, 1]), [False, False])
        self.assertTrue(DEADLINE_S <= time.monotonic() - begun_s < DEADLINE_S + SLACK_S)
        self.assertFalse(engine.tier.has_pending_work())

    def test_a_reset_that_fails_still_ends_all_transfers(self):
        engine = self.stored()
        tier = engine.tier
        with mock.patch.object(tier, "_lookups", Broken()), mock.patch.object(tier._transfers, "drain") as drain, self.assertLogs("farpage", "ERROR"):
            tier.drain_jobs()
        drain.assert_called_once_with()
        self.assertEqual(engine.load([0, 1]), [False, False])

    def test_settings_that_make_no_sense_are_refused(self):
        for setting, sentence in (({"timeout_ms": "200"}, "timeout_ms is '200': give a number above 0"), ({"timeout_ms": 0}, "timeout_ms is 0"),
                                  ({"load_bytes": "256MiB"}, "load_bytes .*bytes above 0"), ({"ahead": True}, 'ahead is True: give {"pages": N}'),
                                  ({"load_bytes": 1e9}, "load_bytes is 1000000000.0: give a whole number of bytes"),
                                  ({"store_bytes": 4096}, "store_bytes is 4096, and a page has .* give at least"), ({"pages": "layer"}, "FarpageTier has no setting pages"),
                                  ({"locality": "remote"}, "LOCAL")):
            with self.assertRaisesRegex(farpage.InvalidError, sentence):
                Engine(self, node=str(self.node.socket), **setting)

    def test_a_dead_node_is_a_miss_and_one_that_comes_back_is_used(self):
        engine = self.stored(timeout_ms=100)
        self.node.kill()
        self.node.wait()
        self.wait_until_unreachable(engine)
        self.assertEqual(engine.load([0, 1]), [False, False])
        self.node = self.start_node("--page-bytes", "2MiB", pool="256MiB")

        def comes_back():
            engine.store([40, 41])
            engine.idle()
            client, tier = engine.tier._connection.client, engine.tier
            return client.leading(tier._names([key(40), key(41)])) == 2 or engine.manager.reset_cache()

        self.assertTrue(wait_until(comes_back))

    def test_without_a_node_everything_is_a_miss_until_one_comes(self):
        self.node.kill()
        self.node.wait()
        engine = Engine(self, node=str(self.node.socket))
        self.assertEqual(engine.load([0, 1]), [False, False])
        engine.store([0, 1])
        self.assertTrue(engine.idle())
        self.start_node("--page-bytes", "2MiB", pool="256MiB")
        engine.connect(self)
        engine.store([2, 3])
        self.assertTrue(engine.idle())
        self.assertEqual(engine.tier._connection.client.leading(engine.tier._space.keys([key(2), key(3)])), 2)

    def reset(self, engine):
        """As vLLM does when its weights are updated."""
        with engine.lock:
            engine.manager.reset_cache()
            getattr(engine.manager, "on_reset_flushed", lambda: None)()

    def test_after_a_reset_only_pages_of_after_it_are_found(self):
        engine, asking = self.stored(), [key(number) for number in range(4)]
        context = engine.request()
        with engine.lock:
            self.assertEqual({engine.manager.lookup(each, context) for each in asking}, {RETRY})
        engine.step()
        self.reset(engine)
        self.assertEqual(engine.settled_prefix([0, 1, 2, 3], context), 0, "wrong bytes: those of before the reset")
        engine.finish(context)
        self.assertEqual(engine.load([0, 1, 2, 3]), [False] * 4, "wrong bytes: those of before the reset")
        for first in range(0, 3 * CHUNKS, 4):
            engine.store(list(range(first, first + 4)))
            self.assertTrue(engine.idle())
        self.assertEqual(engine.load([0, 1, 2, 3]), [True] * 4)
        self.reset(engine)
        self.assertEqual(engine.load([0, 1, 2, 3]), [False] * 4, "wrong bytes: those of before the reset")
        self.assertEqual(self.engine().load([0, 1, 2, 3]), [True] * 4)  # of before the first reset

    def test_a_request_that_goes_on_over_a_reset_stores_nothing_more(self):
        engine = self.engine()
        context = engine.request()
        engine.store([0, 1], context)
        self.assertTrue(engine.idle())
        self.reset(engine)
        engine.store([2, 3], context)
        engine.finish(context)
        engine.store([4, 5])
        self.assertTrue(engine.idle())
        client = engine.tier._connection.client
        there = client.exists(engine.tier._names([key(number) for number in range(6)])).wait()["verdict"] == farpage.Verdict.READY
        self.assertEqual(there.tolist(), [False] * 4 + [True] * 2)
        self.assertEqual((engine.tier._running, engine.tier._stale), (set(), set()))

    def test_a_store_of_before_a_reset_that_waits_until_its_request_has_ended_is_not_done(self):
        engine = self.engine()
        context, transfers = engine.request(), engine.tier._transfers
        self.reset(engine)
        with mock.patch.object(transfers, "_has_room", lambda job: False):
            engine.store([0, 1], context)
            engine.finish(context)
        self.assertEqual(engine.tier._stale, set())
        engine.store([2, 3])
        self.assertTrue(engine.idle())
        client = engine.tier._connection.client
        there = client.exists(engine.tier._names([key(number) for number in range(4)])).wait()["verdict"] == farpage.Verdict.READY
        self.assertEqual(there.tolist(), [False] * 2 + [True] * 2)

    def test_a_store_that_waits_while_vllm_resets_has_the_names_of_before(self):
        engine = self.engine()
        context, transfers, names = engine.request(), engine.tier._transfers, engine.tier._names([key(0), key(1)])
        with mock.patch.object(transfers, "_has_room", lambda job: False):
            engine.store([0, 1], context)
        self.reset(engine)
        client = engine.tier._connection.client
        self.assertEqual((client.leading(names), client.leading(engine.tier._names([key(0), key(1)]))), (2, 0))

    def test_a_shutdown_leaves_nothing(self):
        before = set(os.listdir("/proc/self/task"))
        engine = self.stored()
        engine.close()
        self.assertTrue(wait_until(lambda: set(os.listdir("/proc/self/task")) <= before), os.listdir("/proc/self/task"))
        self.assertEqual([name for name in os.listdir("/dev/shm") if f"farpage-{os.getpid()}-" in name], [])

    def test_pages_of_the_node_that_are_too_small(self):
        small = self.start_node("--page-bytes", "4KiB", name="small")
        engine = Engine(self, node=str(small.socket))
        self.assertTrue(wait_until(lambda: "--page-bytes" in engine.tier._connection.why_not), engine.tier._connection.why_not)
        self.assertEqual(engine.load([0]), [False])

    def test_an_unknown_version_is_refused(self):
        with self.assertRaisesRegex(farpage.InvalidError, "0.31, 0.32, 0.33.*allow_untested"):
            check_version("vLLM", "0.40.1", False)
        check_version("vLLM", "0.40.1", True)
        check_version("vLLM", "0.32.0", False)


if __name__ == "__main__":
    unittest.main()
