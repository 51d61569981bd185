"""vLLM's own TieringOffloadingManager with a FarpageTier, over vLLM's own shared region, stepped by
a test: without a model and a GPU."""

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import sys
import time
import types
from unittest import mock

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "python"))
import numpy  # noqa: E402
from program import Case, stop, wait_until  # noqa: E402
from truth import assert_bytes  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler import (  # noqa: E402
    OffloadingConnectorScheduler,
)
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
BLOCK_TOKENS = 16
HIT, MISS, RETRY = LookupResult.HIT, LookupResult.MISS, LookupResult.RETRY
STEP_S, STEPS = 0.001, 60_000
PATIENT_MS = 30_000  # a busy machine is late; cases about deadlines name their own


def content(number):
    return numpy.frombuffer(hashlib.shake_128(b"chunk %d" % number).digest(CHUNK_BYTES), numpy.int8)


def key(number):
    return make_offload_key(hashlib.sha256(b"%d" % number).digest(), 0)


class Engine:
    """A manager of vLLM's and its tier, stepped as vLLM's scheduler steps them."""

    def __init__(self, case, model="m", dtype="bfloat16", rank=0, blocks=BLOCK_TOKENS, chunks=CHUNKS, **tier):
        self.extra = extra = json.loads((SOURCE / "configs/engines/vllm.json").read_text(encoding="utf-8"))["kv_connector_extra_config"]
        extra["cpu_bytes_to_use"] = 2 * chunks * CHUNK_BYTES
        extra["secondary_tiers"][0].update({"timeout_ms": PATIENT_MS, "store_timeout_ms": PATIENT_MS, **tier})
        parallel = OffloadingParallelConfig(rank=rank, world_size=2, tp_size=2, pp_size=1, pcp_size=1, dcp_size=1, data_parallel_index=0,
                                            data_parallel_size=1, data_parallel_rank_local=None, is_parallelism_agnostic=False)
        config = OffloadingConfig(
            groups=(OffloadingGroupConfig(tokens_per_block=blocks, layer_names=("l0",), group_id=0),), worker_kv_bytes_per_block=CHUNK_BYTES,
            enable_kv_cache_events=False, engine_id=f"farpage-{os.getpid()}-{id(self)}", model=OffloadingModelConfig(model, dtype),
            cache=OffloadingCacheConfig(blocks, 1), parallel=parallel,
            extra_config=extra)
        self.spec = OffloadingSpecFactory.create_spec(config)
        self.manager = self.spec.get_manager()
        self.tier = self.manager.secondary_tiers[0]
        self.view = numpy.asarray(self.manager.primary_tier.get_kv_memoryview())
        self.lock = getattr(self.manager, "lock", contextlib.nullcontext())
        self.requests = 0
        case.addCleanup(self.close)

    def connect(self, case):
        case.assertTrue(wait_until(lambda: self.tier._connection.client is not None), self.tier._connection.why_not)

    def close(self):
        self.view = None
        if self.manager is not None:
            self.manager.shutdown()
        self.manager = None

    def step(self, new=(), preempted=()):
        with self.lock:
            self.manager.on_schedule_end(ScheduleEndContext(new, preempted))

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

    def evict(self):
        """All that the CPU tier has, as other prompts would: after vLLM's own reset, no page of
        before is found."""
        with self.lock, mock.patch.object(self.tier, "drain_jobs", self.tier._transfers.drain):
            self.manager.reset_cache()
            getattr(self.manager, "on_reset_flushed", lambda: None)()

    def prefix(self, numbers, context):
        """How many of the first chunks vLLM can load now, as its scheduler asks; None: later."""
        scheduler = types.SimpleNamespace(manager=self.manager, _events_tracker=types.SimpleNamespace(record_lookup=lambda *_: None))
        with self.lock:
            return OffloadingConnectorScheduler._maximal_prefix_lookup(scheduler, [key(number) for number in numbers], context, None, None, 0)

    def settled_prefix(self, numbers, context):
        """The same, once it is known."""
        for _ in range(STEPS):
            hits = self.prefix(numbers, context)
            if hits is not None:
                return hits
            self.step()
            time.sleep(STEP_S)
        raise AssertionError("vLLM waits for ever")

    def store(self, numbers, context=None):
        """What a worker computes and offloads, of a request of its own if none is given."""
        is_own = context is None
        context = context or self.request()
        keys = [key(number) for number in numbers]
        with self.lock:
            prepared = self.manager.prepare_store(keys, context)
            for each, chunk in zip(prepared.keys_to_store, prepared.store_spec.chunk_ids):
                self.view[chunk][:CHUNK_BYTES] = content(numbers[keys.index(each)])
            self.manager.complete_store(prepared.keys_to_store, context, True)
        if is_own:
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
                    assert_bytes((self.view[chunk][:CHUNK_BYTES] == content(number)).all(), number)
                self.manager.complete_load([key(number) for number in hits], context)
        self.finish(context)
        return [each is HIT for each in found]


class ManagerCase(Case):
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

    def stop_node(self):
        """All its threads, until the case ends."""
        stop(self.node.pid)
        self.addCleanup(self.node.send_signal, signal.SIGCONT)
        threads = pathlib.Path(f"/proc/{self.node.pid}/task")

        def is_stopped():
            # Of a thread that ended.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                return all(" T " in (each / "stat").read_text() for each in threads.iterdir())
            return False

        self.assertTrue(wait_until(is_stopped))
