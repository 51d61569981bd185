"""FarpageTier under vLLM's own TieringOffloadingManager, over its own shared region: without a
model and a GPU, in an environment that has vLLM (scripts/test-engines)."""

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import sys
import time
import unittest

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "python"))
import numpy  # noqa: E402
from program import Case, wait_until  # noqa: E402
from vllm.v1.kv_offload.base import (  # noqa: E402
    LookupResult,
    ReqContext,
    ScheduleEndContext,
    make_offload_key,
)
from vllm.v1.kv_offload.config import (  # noqa: E402
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.factory import OffloadingSpecFactory  # noqa: E402

import farpage  # noqa: E402

CHUNKS, CHUNK_BYTES = 8, 64 << 10  # of the CPU tier
HIT, MISS, RETRY = LookupResult.HIT, LookupResult.MISS, LookupResult.RETRY
STEP_S, STEPS = 0.001, 60_000
PATIENT_MS = 30_000  # a busy machine is late; cases about deadlines name their own


def content(number):
    return numpy.frombuffer(hashlib.shake_128(b"chunk %d" % number).digest(CHUNK_BYTES), numpy.int8)


def key(number):
    return make_offload_key(hashlib.sha256(b"%d" % number).digest(), 0)


class Engine:
    """A manager of vLLM's and its tier, stepped as vLLM's scheduler steps them."""

    def __init__(self, case, model="m", dtype="bfloat16", rank=0, blocks=16, other_node=None, **tier):
        extra = json.loads((SOURCE / "configs/engines/vllm.json").read_text(encoding="utf-8"))["kv_connector_extra_config"]
        extra["cpu_bytes_to_use"] = 2 * CHUNKS * CHUNK_BYTES
        extra["secondary_tiers"][0].update({"timeout_ms": PATIENT_MS, "store_timeout_ms": PATIENT_MS, **tier})
        if other_node is not None:
            extra["secondary_tiers"].append({**extra["secondary_tiers"][0], "node": other_node})
        parallel = OffloadingParallelConfig(rank=rank, world_size=2, tp_size=2, pp_size=1, pcp_size=1, dcp_size=1, data_parallel_index=0,
                                            data_parallel_size=1, data_parallel_rank_local=None, is_parallelism_agnostic=False)
        config = OffloadingConfig(
            groups=(OffloadingGroupConfig(tokens_per_block=blocks, layer_names=("l0",), group_id=0),), worker_kv_bytes_per_block=CHUNK_BYTES,
            enable_kv_cache_events=False, engine_id=f"farpage-{os.getpid()}-{id(self)}", model=OffloadingModelConfig(model, dtype),
            cache=OffloadingCacheConfig(blocks, 1), parallel=parallel,
            extra_config=extra)
        self.manager = OffloadingSpecFactory.create_spec(config).get_manager()
        self.tier = self.manager.secondary_tiers[0]
        self.view = numpy.asarray(self.manager.primary_tier.get_kv_memoryview())
        self.lock = getattr(self.manager, "lock", contextlib.nullcontext())
        self.requests = 0
        case.addCleanup(self.close)

    def connect(self, case):
        for tier in self.manager.secondary_tiers:
            case.assertTrue(wait_until(lambda tier=tier: tier._connection.client is not None), tier._connection.why_not)

    def close(self):
        self.view = None
        if self.manager is not None:
            self.manager.shutdown()
        self.manager = None

    def step(self):
        with self.lock:
            self.manager.on_schedule_end(ScheduleEndContext((), ()))

    def request(self):
        self.requests += 1
        context = ReqContext(f"r{self.requests}")
        with self.lock:
            self.manager.on_new_request(context)
        return context

    def finish(self, context):
        with self.lock:
            self.manager.on_request_finished(context)

    def idle(self):
        for _ in range(STEPS):
            self.step()
            if not self.manager.has_pending_work():
                return True
            time.sleep(STEP_S)
        return False

    def store(self, numbers):
        """What a worker computes and offloads."""
        context = self.request()
        keys = [key(number) for number in numbers]
        with self.lock:
            prepared = self.manager.prepare_store(keys, context)
            for each, chunk in zip(prepared.keys_to_store, prepared.store_spec.chunk_ids):
                self.view[chunk][:CHUNK_BYTES] = content(numbers[keys.index(each)])
            self.manager.complete_store(prepared.keys_to_store, context, True)
        self.finish(context)

    def load(self, numbers):
        """[whether each is there], once that is known; those that are hold their bytes."""
        context = self.request()
        keys = [key(number) for number in numbers]
        for _ in range(STEPS):
            with self.lock:
                found = [self.manager.lookup(each, context) for each in keys]
            if all(each in (HIT, MISS) for each in found):
                break
            self.step()
            time.sleep(STEP_S)
        else:
            raise AssertionError(found)
        hits = [number for number, each in zip(numbers, found) if each is HIT]
        with self.lock:
            if hits:
                spec = self.manager.prepare_load([key(number) for number in hits], context)
                for number, chunk in zip(hits, spec.chunk_ids):
                    assert (self.view[chunk][:CHUNK_BYTES] == content(number)).all(), f"wrong bytes of {number}"
                self.manager.complete_load([key(number) for number in hits], context)
        self.finish(context)
        return [each is HIT for each in found]


class VllmTierTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.start_node("--page-bytes", "2MiB", pool="256MiB")

    def engine(self, **options):
        engine = Engine(self, node=str(self.node.socket), **options)
        engine.connect(self)
        return engine

    def stored(self, **options):
        """An engine that stored 3 × what its CPU tier holds."""
        engine = self.engine(**options)
        for first in range(0, 3 * CHUNKS, 4):
            engine.store(list(range(first, first + 4)))
            self.assertTrue(engine.idle())
        return engine

    def wait_until_unreachable(self, engine):
        """Over shm a node is read for as long as the view's lease lasts."""
        client, into = engine.tier._connection.client, numpy.zeros(CHUNK_BYTES, numpy.uint8)
        self.assertTrue(wait_until(lambda: client.fetch(b"x" * 16, into, timeout_s=0.1).wait()["reason"][0] != farpage.Reason.MISS))

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
            self.assertEqual(self.engine(**facts).load([0, 1]), [False, False], facts)

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
        self.node.send_signal(signal.SIGSTOP)
        self.wait_until_unreachable(engine)
        begun = time.monotonic()
        self.assertEqual(engine.load([0, 1, 2, 3]), [False] * 4)
        self.assertLess(time.monotonic() - begun, PATIENT_MS / 1000)
        self.node.send_signal(signal.SIGCONT)

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
            client, space = engine.tier._connection.client, engine.tier._space
            return client.leading(space.keys([key(40), key(41)])) == 2 or engine.manager.reset_cache()

        self.assertTrue(wait_until(comes_back))

    def test_two_tiers_in_one_process(self):
        """Each stores to its own node, and where one's is dead the other's pages come."""
        other = self.start_node("--page-bytes", "2MiB", name="other", pool="256MiB")
        engine = self.stored(other_node=str(other.socket), timeout_ms=100)
        self.assertEqual([tier._transfers.counts["stored"] for tier in engine.manager.secondary_tiers], [3 * CHUNKS] * 2)
        self.node.kill()
        self.node.wait()
        self.wait_until_unreachable(engine)
        second = engine.manager.secondary_tiers[1]
        second._timeout_s = second._transfers._load_s = PATIENT_MS / 1000
        self.assertEqual(engine.load([0, 1, 2, 3]), [True] * 4)
        self.assertEqual([tier._transfers.counts["ready"] for tier in engine.manager.secondary_tiers], [0, 4])

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

    def test_reset_and_shutdown_leave_nothing(self):
        before = set(os.listdir("/proc/self/task"))
        engine = self.stored()
        with engine.lock:
            engine.manager.reset_cache()
            getattr(engine.manager, "on_reset_flushed", lambda: None)()
        self.assertEqual(engine.load([0, 1, 2, 3]), [True] * 4)
        engine.close()
        self.assertTrue(wait_until(lambda: set(os.listdir("/proc/self/task")) <= before), os.listdir("/proc/self/task"))
        self.assertEqual([name for name in os.listdir("/dev/shm") if f"farpage-{os.getpid()}-" in name], [])

    def test_pages_of_the_node_that_are_too_small(self):
        small = self.start_node("--page-bytes", "4KiB", name="small")
        engine = Engine(self, node=str(small.socket))
        self.assertTrue(wait_until(lambda: "--page-bytes" in engine.tier._connection.why_not), engine.tier._connection.why_not)
        self.assertEqual(engine.load([0]), [False])

    def test_an_unknown_version_is_refused(self):
        from farpage.engines.vllm import check_version

        with self.assertRaisesRegex(farpage.InvalidError, "0.31, 0.32, 0.33.*allow_untested"):
            check_version("0.40.1", False)
        check_version("0.40.1", True)
        check_version("0.32.0", False)


if __name__ == "__main__":
    unittest.main()
