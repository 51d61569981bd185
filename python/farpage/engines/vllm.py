"""A secondary tier of vLLM's KV cache (`TieringOffloadingSpec`), whose pages lie on memory nodes.
configs/engines/vllm.json names it, and docs/engines.md explains its settings. vLLM 0.31 to 0.33."""

from __future__ import annotations

import collections
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy
import vllm
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats
from vllm.v1.kv_offload.base import (
    Locality,
    LookupResult,
    Medium,
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingHistogramMetadata,
    OffloadingMetricMetadata,
    ReqContext,
    RequestOffloadingContext,
    ScheduleEndContext,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

import farpage
from farpage.engines.connection import Connection
from farpage.engines.figures import BUCKETS_S, METRICS, Figures, Metric
from farpage.engines.guard import answering, tell
from farpage.engines.lookups import Lookups
from farpage.engines.namespaces import Epoch, page_space
from farpage.engines.settings import check, check_version, refuse_others, require_a_page
from farpage.engines.transfers import Job, Transfers
from farpage.engines.vllm_facts import config_of_maker, engine_facts, specs_of_maker
from farpage.engines.worth import Worth

PREFIX = "vllm:kv_offload_farpage_"
UNTOLD = 1 << 14  # observations that wait for vLLM to ask for them: it never does if it logs none
GROUP = slice(-4, None)  # of a key
MIB = 1 << 20
HIT, MISS, RETRY = LookupResult.HIT, LookupResult.MISS, LookupResult.RETRY  # looking them up costs


def space_of(spec: Any, vllm_config: Any, kv_specs: str, salt: str) -> farpage.KeySpace:
    """The namespace of all that decides what is in a chunk."""
    config = spec.config
    parallel = config.parallel
    ranks = {name: getattr(parallel, name) for name in ("rank", "world_size", "tp_size", "pp_size", "pcp_size", "dcp_size")}
    groups = ";".join(f"{group.group_id}:{group.tokens_per_block}:{','.join(group.layer_names)}" for group in config.groups)
    return page_space(
        engine="vllm", version=vllm.__version__, model=config.model.name, dtype=config.model.dtype,
        layout=f"{config.kv_cache_layout} canonical={config.canonical_layout} replicated={config.replicated_layout}",
        block_tokens=config.cache.tokens_per_hash * config.cache.blocks_per_chunk, ranks=ranks, salt=salt, groups=groups, specs=kv_specs,
        **engine_facts(vllm_config))


class Gathered:
    """`figures`, and what they gained since `take()`, under names that begin with `prefix`. One
    thread uses it."""

    def __init__(self, prefix: str) -> None:
        self.figures = Figures(self._publish)
        self._prefix = prefix
        self._stats, self._untold = OffloadingConnectorStats(), 0

    def take(self) -> OffloadingConnectorStats | None:
        stats, self._stats, self._untold = self._stats, OffloadingConnectorStats(), 0
        return None if stats.is_empty() else stats

    def _publish(self, name: str, metric: Metric, label: str, value: float) -> None:
        labels = (label,) if metric.label else ()
        if metric.kind == "counter":
            self._stats.increase_counter(self._prefix + name, value, labels)
        elif metric.kind == "gauge":
            self._stats.set_gauge(self._prefix + name, value, labels)
        elif self._untold < UNTOLD:
            self._untold += 1
            self._stats.observe_histogram(self._prefix + name, value, labels)


class FarpageTier(SecondaryTierManager):
    """A chunk of vLLM's is a page. vLLM calls everything from the scheduler's thread; the bytes
    move on threads of the client's, straight from and to vLLM's own memory, which is registered
    once.

    A lookup is HIT for pages that a node has now and that a load brings in time, once a request,
    and RETRY until that is known, or until other loads have made room: within `timeout_ms` it is
    HIT or MISS. Each job ends, too: a load within what is left of `timeout_ms`, in which its keys
    become MISS, and a store by `store_timeout_ms`.
    """

    medium = Medium.STORAGE

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str, backpressure_detector: Any = None, *,
                 timeout_ms: float = 200, store_timeout_ms: float = 5000, load_bytes: int = 256 * MIB, store_bytes: int = 256 * MIB,
                 cost_model: bool = False, prefill_tokens_per_s: float = 0, salt: str = "", allow_untested: bool = False, locality: str = "REMOTE",
                 **settings: Any) -> None:
        check(timeout_ms=timeout_ms, store_timeout_ms=store_timeout_ms, load_bytes=load_bytes, store_bytes=store_bytes, cost_model=cost_model,
              prefill_tokens_per_s=prefill_tokens_per_s, salt=salt, allow_untested=allow_untested, locality=locality, **settings)
        refuse_others("FarpageTier", settings)
        check_version("vLLM", vllm.__version__, allow_untested)
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        self.locality = Locality(locality)
        self._space, self._epoch = space_of(offloading_spec, config_of_maker(), specs_of_maker(), salt), Epoch()
        self._store_timeout_s = store_timeout_ms / 1000
        self._memory: Any = numpy.asarray(primary_kv_view).view(numpy.uint8)
        self._chunk_bytes = int(self._memory.shape[1])
        require_a_page(self._chunk_bytes, load_bytes=load_bytes, store_bytes=store_bytes)
        self._chunk_tokens = {group.group_id.to_bytes(4, "big"): group.tokens_per_block * offloading_spec.config.cache.blocks_per_chunk
                              for group in offloading_spec.config.groups}
        self._chunks: farpage.Pages | None = None  # all of the memory, once it is registered
        self._gathered = Gathered(PREFIX)
        self.figures = self._gathered.figures
        self._worth = Worth(self.figures, is_on=cost_model, tokens_per_s=prefill_tokens_per_s)
        self._lookups = Lookups(self._names, self._ask, timeout_ms / 1000, self._choose, self.figures)
        self._transfers = Transfers(load_bytes=load_bytes, store_bytes=store_bytes, lost=self._lookups.lose, figures=self.figures)
        self._running: set[str] = set()
        self._stale: set[str] = set()  # of these, those that computed KV before vLLM's last reset
        # Requests of which nothing is stored yet, and since when vLLM computes them.
        self._computing: dict[str, float] = {}
        self._announced: dict[str, set[bytes]] = {}  # by request, and not loaded since
        self._announces, self._most_announced = bool(settings.get("ahead")), max(1, load_bytes // self._chunk_bytes)
        if self._announces:
            settings["ahead"] = {"page_bytes": self._chunk_bytes, **settings["ahead"]}
        self._connection = Connection(settings, self._prepare, self._space)

    def _prepare(self, client: farpage.Client) -> None:
        if client.page_bytes < self._chunk_bytes:
            raise farpage.InvalidError(f"vLLM's chunks have {self._chunk_bytes} bytes, and the nodes' pages {client.page_bytes}: start the nodes "
                                       f"with --page-bytes {self._chunk_bytes}, or set a smaller blocks_per_chunk")
        starts = numpy.arange(len(self._memory)) * self._chunk_bytes
        self._chunks = client.register(self._memory).pages(starts, self._chunk_bytes)

    def _names(self, keys: Iterable[bytes]) -> Any:
        return self._space.keys(self._epoch.names(keys))

    # ---- What is there, and worth loading

    def _ask(self, names: Any) -> farpage.Ticket | None:
        client = self._connection.client
        return None if client is None else client.exists(names, timeout_s=self._lookups.timeout_s)

    def _choose(self, keys: list[bytes], found: list[bool], left_s: float) -> list[bool]:
        """Of a request's pages that are there, those to load: none where computing them is cheaper,
        and no more than come in time."""
        there = sum(found)
        self.figures.add("pages", "found", there)
        if self._worth.is_on and not self._is_worth(keys, found):
            self.figures.add("pages", "slower", there)
            return [False] * len(keys)
        if len(self._chunk_tokens) > 1:  # a part of each group is of no use
            return found
        most = max(1.0, self._worth.bytes_within(left_s) / self._chunk_bytes)
        if there <= most:
            return found
        chosen = [is_there and place <= most for is_there, place in zip(found, itertools.accumulate(found))]
        self.figures.add("pages", "late", there - sum(chosen))
        return chosen

    def _is_worth(self, keys: list[bytes], found: list[bool]) -> bool:
        # Of each group, the first pages without a gap.
        runs, ended = dict.fromkeys(self._chunk_tokens, 0), set()
        for key, is_there in zip(keys, found):
            group = key[GROUP]
            if not is_there:
                ended.add(group)
            elif group not in ended:
                runs[group] = runs.get(group, 0) + 1
        pages = sum(runs.values())
        return not pages or self._worth.is_worth(self._tokens(runs), pages * self._chunk_bytes)

    def _tokens(self, runs: Mapping[bytes, int]) -> int:
        return max((count * self._chunk_tokens.get(group, 0) for group, count in runs.items()), default=0)

    def _tokens_of(self, keys: Iterable[bytes]) -> int:
        return self._tokens(collections.Counter(key[GROUP] for key in keys))

    # ---- What vLLM calls

    def lookup(self, key: bytes, req_context: ReqContext) -> LookupResult:
        try:  # a call around each of a million tokens' keys would cost more
            request = req_context.req_id
            found = self._lookups.find(key, request)
            if not found:
                return RETRY if found is None else MISS
            if not self._transfers.promise(self._chunk_bytes):
                return RETRY
            self._lookups.spend(key, request)
            return HIT
        except Exception as error:
            tell(self, "lookup", error)
            return MISS

    @answering(lambda *_: None)
    def submit_load(self, job_metadata: TransferJob) -> None:
        self._submit(job_metadata, is_load=True)
        if self._announces:
            self._announced.get(job_metadata.req_context.req_id, set()).difference_update(job_metadata.keys)

    @answering(lambda *_: None)
    def submit_store(self, job_metadata: TransferJob) -> None:
        self._submit(job_metadata, is_load=False)
        request = job_metadata.req_context.req_id
        since_s = self._computing.pop(request, None)
        # Keys that were not asked for are of tokens that were generated, one a step.
        if since_s is not None and self._lookups.has_asked(job_metadata.keys, request):
            self._worth.prefilled(self._tokens_of(job_metadata.keys), time.monotonic() - since_s)

    def _submit(self, transfer: TransferJob, *, is_load: bool) -> None:
        keys = list(transfer.keys)
        job = self._job(transfer, keys, is_load)
        if job is None:  # vLLM waits for its end all the same
            self._transfers.refuse(Job(transfer.job_id, keys, is_load))
        else:
            self._transfers.submit(job)

    @answering(lambda *_: None)
    def _job(self, transfer: TransferJob, keys: list[bytes], is_load: bool) -> Job | None:
        """None: it is not to be done. However long it waits, its pages have the names of now, and
        whether they have KV of the weights of now is known only until its request ends."""
        chunks, request = transfer.chunk_ids, transfer.req_context.req_id
        if not is_load and request in self._stale:
            return None
        names = self._lookups.names(keys, request)

        def begin(left_s: float) -> farpage.Ticket:
            client, memory = self._connection.client, self._chunks
            if client is None or memory is None:
                raise farpage.UnavailableError(self._connection.why_not)
            call = client.fetch if is_load else client.put
            return call(names, memory.at(chunks), timeout_s=left_s)

        timeout_s = self._lookups.left_s(request) if is_load else self._store_timeout_s
        return Job(transfer.job_id, keys, is_load, len(keys) * self._chunk_bytes, timeout_s, begin)

    @answering(lambda *_: ())
    def get_finished_jobs(self) -> Iterable[JobResult]:
        self._take_answers()
        ended = self._transfers.take_ended()
        if not ended:
            return ()
        self._learn(ended)
        now = time.monotonic()
        return [JobResult(job_id=job.number, success=job.is_whole, successful_keys=tuple(job.done) if job.is_load and not job.is_whole else None,
                          transfer_time=now - job.begun_s, transfer_bytes=job.done_bytes) for job in ended]

    @answering(lambda *_: None)
    def _take_answers(self) -> None:
        self._lookups.take()

    @answering(lambda *_: None)
    def _learn(self, ended: list[Job]) -> None:
        for job in ended:
            if job.is_load and job.took_s:
                self._worth.loaded(job.done_bytes, self._tokens_of(job.done), job.took_s)

    @answering(lambda *_: False)
    def has_pending_work(self) -> bool:
        return self._lookups.is_waiting or not self._transfers.is_idle

    @answering(lambda *_: RequestOffloadingContext())
    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        self._running.add(req_context.req_id)
        return RequestOffloadingContext()

    @answering(lambda *_: None)
    def on_request_finished(self, req_context: ReqContext) -> None:
        request = req_context.req_id
        self._forget(request)
        self._running.discard(request)
        self._stale.discard(request)

    @answering(lambda *_: None)
    def on_schedule_end(self, context: ScheduleEndContext) -> None:
        self._transfers.end_promises()
        for request in context.preempted_req_ids:  # it comes again, and asks anew
            self._forget(request)
        self._announce()
        self._lookups.ask()
        self._computing.update(dict.fromkeys(context.new_req_ids, time.monotonic()))

    def _forget(self, request: str) -> None:
        self._lookups.forget(request)
        self._computing.pop(request, None)
        if self._announces:
            self._tell_ahead(list(self._announced.pop(request, ())), farpage.Client.withdraw)

    @answering(lambda *_: None)
    def _announce(self) -> None:
        """vLLM names a request's keys in its lookups and not before: they are announced as they are
        asked for, so that the pages come while vLLM computes its step."""
        if not self._announces:
            return
        for request, keys in self._lookups.unasked.items():
            announced = keys[:self._most_announced]
            self._announced.setdefault(request, set()).update(announced)
            self._tell_ahead(announced, lambda client, names: client.announce(names, wanted_in_s=self._lookups.timeout_s))

    @answering(lambda *_: None)
    def _tell_ahead(self, keys: list[bytes], call: Callable[[farpage.Client, Any], None]) -> None:
        client = self._connection.client
        if client is None or not keys:
            return
        try:
            call(client, self._names(keys))
        except farpage.FarpageError:  # too much was said: these pages come when they are loaded
            pass

    @answering(lambda *_: None)
    def drain_jobs(self) -> None:
        """vLLM calls it when it resets its caches, as for new weights: no page of before is found
        any more, and requests that go on store nothing, for they keep what they computed."""
        announced, self._announced = self._announced, {}
        try:
            for keys in announced.values():
                self._tell_ahead(list(keys), farpage.Client.withdraw)
            self._epoch.begin()
            self._stale = set(self._running)
            self._lookups.reset()
        finally:
            self._transfers.drain()

    @answering(lambda *_: None)
    def shutdown(self) -> None:
        self._connection.close()
        self._chunks = self._memory = None
        self._primary_kv_view = memoryview(b"")

    # ---- Figures

    @classmethod
    def build_metric_definitions(cls, extra_config: Mapping[str, Any]) -> dict[str, OffloadingMetricMetadata]:
        def definition(metric: Metric) -> OffloadingMetricMetadata:
            labels = (metric.label,) if metric.label else ()
            if metric.kind == "histogram":
                return OffloadingHistogramMetadata(documentation=metric.documentation, labelnames=labels, buckets=BUCKETS_S)
            kind = OffloadingCounterMetadata if metric.kind == "counter" else OffloadingGaugeMetadata
            return kind(documentation=metric.documentation, labelnames=labels)

        return {PREFIX + name: definition(metric) for name, metric in METRICS.items()}

    @answering(lambda *_: None)
    def get_stats(self) -> OffloadingConnectorStats | None:
        return self._gathered.take()
