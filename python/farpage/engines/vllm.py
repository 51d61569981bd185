"""A secondary tier of vLLM's KV cache (`TieringOffloadingSpec`), whose pages lie on memory nodes.
configs/engines/vllm.json names it, and docs/engines.md explains its settings. vLLM 0.31 to 0.33."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy
import vllm
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats
from vllm.v1.kv_offload.base import (
    Locality,
    LookupResult,
    Medium,
    OffloadingCounterMetadata,
    OffloadingMetricMetadata,
    ReqContext,
    RequestOffloadingContext,
    ScheduleEndContext,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

import farpage
from farpage.engines.connection import Connection
from farpage.engines.lookups import Lookups
from farpage.engines.namespaces import page_space
from farpage.engines.transfers import Job, Transfers

KNOWN = ("0.31", "0.32", "0.33")
PAGES = "vllm:kv_offload_farpage_pages"
MIB = 1 << 20


def check_version(version: str, allow_untested: bool) -> None:
    if allow_untested or ".".join(version.split(".")[:2]) in KNOWN:
        return
    raise farpage.InvalidError(f"vLLM {version} was not tested with Farpage {farpage.__version__}, and its tiers change between releases: use "
                               f"{', '.join(KNOWN)}, or set \"allow_untested\": true")


def space_of(spec: Any, salt: str) -> farpage.KeySpace:
    """The namespace of all that decides what is in a chunk."""
    config = spec.config
    parallel = config.parallel
    ranks = {name: getattr(parallel, name) for name in ("rank", "world_size", "tp_size", "pp_size", "pcp_size", "dcp_size")}
    groups = ";".join(f"{group.group_id}:{group.tokens_per_block}:{','.join(group.layer_names)}" for group in config.groups)
    return page_space(
        engine="vllm", version=vllm.__version__, model=config.model.name, dtype=config.model.dtype,
        layout=f"{config.kv_cache_layout} canonical={config.canonical_layout} replicated={config.replicated_layout}",
        block_tokens=config.cache.tokens_per_hash * config.cache.blocks_per_chunk, ranks=ranks, salt=salt, groups=groups)


class FarpageTier(SecondaryTierManager):
    """A chunk of vLLM's is a page. vLLM calls everything from the scheduler's thread; the bytes
    move on threads of the client's, straight from and to vLLM's own memory, which is registered
    once.

    A lookup is HIT for pages that a node has now, and RETRY until it has answered, or `timeout_ms`
    is over: MISS. Each job ends, too: a load by `timeout_ms`, in which its keys become MISS, and a
    store by `store_timeout_ms`.
    """

    medium = Medium.STORAGE

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str, backpressure_detector: Any = None, *,
                 timeout_ms: float = 200, store_timeout_ms: float = 5000, load_bytes: int = 256 * MIB, store_bytes: int = 256 * MIB,
                 salt: str = "", allow_untested: bool = False, locality: str = "REMOTE", **settings: Any) -> None:
        check_version(vllm.__version__, allow_untested)
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        self.locality = Locality(locality)
        self._space = space_of(offloading_spec, salt)
        self._timeout_s = timeout_ms / 1000
        self._memory: Any = numpy.asarray(primary_kv_view).view(numpy.uint8)
        self._chunk_bytes = int(self._memory.shape[1])
        self._region: farpage.Region | None = None
        self._lookups = Lookups(self._ask)
        self._transfers = Transfers(load_s=self._timeout_s, store_s=store_timeout_ms / 1000, load_bytes=load_bytes, store_bytes=store_bytes,
                                    lost=self._lookups.lose)
        self._told: dict[str, int] = {}  # counts that vLLM has
        self._connection = Connection(settings, self._prepare)

    def _prepare(self, client: farpage.Client) -> None:
        if client.page_bytes < self._chunk_bytes:
            raise farpage.InvalidError(f"vLLM's chunks have {self._chunk_bytes} bytes, and the nodes' pages {client.page_bytes}: start the nodes "
                                       f"with --page-bytes {self._chunk_bytes}, or set a smaller blocks_per_chunk")
        self._region = client.register(self._memory)

    def _ask(self, keys: list[bytes]) -> farpage.Ticket | None:
        client = self._connection.client
        return None if client is None else client.exists(self._space.keys(keys), timeout_s=self._timeout_s)

    # ---- What vLLM calls

    def lookup(self, key: bytes, req_context: ReqContext) -> LookupResult:
        is_there = self._lookups.find(key, req_context.req_id)
        if is_there is None:
            return LookupResult.RETRY
        return LookupResult.HIT if is_there else LookupResult.MISS

    def submit_load(self, job_metadata: TransferJob) -> None:
        self._submit(job_metadata, is_load=True)

    def submit_store(self, job_metadata: TransferJob) -> None:
        self._submit(job_metadata, is_load=False)

    def _submit(self, transfer: TransferJob, *, is_load: bool) -> None:
        keys = list(transfer.keys)
        chunks = numpy.asarray(transfer.chunk_ids, numpy.int64)

        def begin(timeout_s: float) -> farpage.Ticket:
            client, region = self._connection.client, self._region
            if client is None or region is None:
                raise farpage.UnavailableError(self._connection.why_not)
            names, pages = self._space.keys(keys), region.pages(chunks * self._chunk_bytes, self._chunk_bytes)
            return client.fetch(names, pages, timeout_s=timeout_s) if is_load else client.put(names, pages, timeout_s=timeout_s)

        self._transfers.submit(Job(transfer.job_id, keys, is_load, len(keys) * self._chunk_bytes, begin))

    def get_finished_jobs(self) -> Iterable[JobResult]:
        self._lookups.take()
        now = time.monotonic()
        return [JobResult(job_id=job.number, success=job.is_whole, successful_keys=tuple(job.done) if job.is_load and not job.is_whole else None,
                          transfer_time=now - job.begun_s, transfer_bytes=len(job.done) * self._chunk_bytes) for job in self._transfers.take_ended()]

    def has_pending_work(self) -> bool:
        return self._lookups.is_waiting or not self._transfers.is_idle

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: ReqContext) -> None:
        self._lookups.forget(req_context.req_id)

    def on_schedule_end(self, context: ScheduleEndContext) -> None:
        self._lookups.ask()

    def drain_jobs(self) -> None:
        self._transfers.drain()

    def shutdown(self) -> None:
        self._connection.close()
        self._region = self._memory = None
        self._primary_kv_view = memoryview(b"")

    # ---- Counts

    @classmethod
    def build_metric_definitions(cls, extra_config: Mapping[str, Any]) -> dict[str, OffloadingMetricMetadata]:
        return {PAGES: OffloadingCounterMetadata(
            documentation="Pages by what became of them: ready, stored, or the reason why not (docs/engines.md).", labelnames=("result",))}

    def get_stats(self) -> OffloadingConnectorStats | None:
        stats, counts = OffloadingConnectorStats(), dict(self._transfers.counts)
        for result, count in counts.items():
            if count > self._told.get(result, 0):
                stats.increase_counter(PAGES, count - self._told.get(result, 0), (result,))
        self._told = counts
        return None if stats.is_empty() else stats
