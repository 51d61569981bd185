"""A KV connector of vLLM's, whose blocks lie on memory nodes, for engines without a tier in the
host's memory. configs/engines/vllm-connector.json names it, and docs/engines.md explains its
settings. vLLM 0.31 to 0.33."""

from __future__ import annotations

import dataclasses
from typing import Any

import vllm
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorWorkerMetadata,
)
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats
from vllm.distributed.parallel_state import get_pp_group, get_tp_group
from vllm.v1.kv_cache_interface import FullAttentionSpec, UniformTypeKVCacheSpecs

import farpage
from farpage.engines.connector_gpu import cache_blocks
from farpage.engines.connector_memory import CacheBlocks
from farpage.engines.connector_plan import Load, Plan, Settings, Shard, together
from farpage.engines.connector_scheduler import SchedulerSide
from farpage.engines.connector_worker import WorkerSide
from farpage.engines.figures import BUCKETS_S, METRICS, Metric
from farpage.engines.guard import answering
from farpage.engines.namespaces import page_space
from farpage.engines.settings import check_version
from farpage.engines.vllm import Gathered
from farpage.engines.vllm_facts import engine_facts

PREFIX = "vllm:farpage_"


@dataclasses.dataclass
class FarpageMetadata(KVConnectorMetadata):
    plan: Plan


@dataclasses.dataclass
class FarpageLoads(KVConnectorWorkerMetadata):
    """Loads that have ended, of one worker or of several, by request."""

    loads: dict[str, Load]

    def aggregate(self, other: KVConnectorWorkerMetadata) -> FarpageLoads:
        assert isinstance(other, FarpageLoads)
        return FarpageLoads(together(self.loads, other.loads))


@dataclasses.dataclass
class FarpageHandshake(KVConnectorHandshakeMetadata):
    shard: Shard


def refuse_unfit(vllm_config: Any, kv_cache_config: Any) -> None:
    """A sentence about what this connector cannot serve."""
    policy = vllm_config.kv_transfer_config.kv_load_failure_policy
    if policy != "recompute":
        raise farpage.InvalidError(f"kv_load_failure_policy is {policy!r}, with which a node that dies fails requests: set \"kv_load_failure_policy\": "
                                   "\"recompute\" beside \"kv_connector\"")
    groups = kv_cache_config.kv_cache_groups
    spec = groups[0].kv_cache_spec if len(groups) == 1 else None
    specs = spec.kv_cache_specs.values() if isinstance(spec, UniformTypeKVCacheSpecs) else [spec]
    if not all(isinstance(each, FullAttentionSpec) for each in specs):
        raise farpage.InvalidError("FarpageConnector serves models whose layers all keep every token (full attention, MLA), and this one has layers of "
                                   "other kinds: use the secondary tier farpage.engines.vllm.FarpageTier")
    parallel = vllm_config.parallel_config
    if parallel.prefill_context_parallel_size > 1 or parallel.decode_context_parallel_size > 1:
        raise farpage.InvalidError("FarpageConnector does not serve context parallelism: set --prefill-context-parallel-size and "
                                   "--decode-context-parallel-size to 1")


def _kernel(layer: Any) -> str:
    """What decides how a layer's K and V lie within a head's bytes: its attention's backend, and of
    a CPU's kernels which."""
    backend = layer.get_attn_backend().get_name() if hasattr(layer, "get_attn_backend") else ""
    return f"{backend} {getattr(layer, 'isa', '')}".strip()


def space_of(vllm_config: Any, cache: CacheBlocks, settings: Settings) -> farpage.KeySpace:
    """The namespace of all that decides what is in this worker's pages."""
    model, kv_cache = vllm_config.model_config, vllm_config.cache_config
    ranks = {f"{name}_{what}": value for name, group in (("tp", get_tp_group()), ("pp", get_pp_group()))
             for what, value in (("rank", group.rank_in_group), ("size", group.world_size))}
    layers = vllm_config.compilation_config.static_forward_context
    kernels = [_kernel(layers.get(name)) for name in cache.place]
    return page_space(
        engine="vllm", version=vllm.__version__, model=model.model, dtype=f"{model.dtype} kv={kv_cache.cache_dtype}", layout=cache.layout,
        block_tokens=kv_cache.block_size, ranks=ranks, salt=settings.salt, kernels=",".join(kernels if len(set(kernels)) > 1 else kernels[:1]), pages=settings.pages, adapter="connector",
        **engine_facts(vllm_config))


class ConnectorMetrics(KVConnectorPromMetrics):
    """The connector's in vLLM's /metrics, for each of its engines. vLLM makes it with its own
    classes and labels."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._series = {PREFIX + name: self._made(name, metric) for name, metric in METRICS.items()}

    def _made(self, name: str, metric: Metric) -> Any:
        labels = [*self._labelnames, *([metric.label] if metric.label else [])]
        if metric.kind == "histogram":
            return self._histogram_cls(name=PREFIX + name, documentation=metric.documentation, labelnames=labels, buckets=BUCKETS_S)
        if metric.kind == "gauge":
            return self._gauge_cls(name=PREFIX + name, documentation=metric.documentation, labelnames=labels, multiprocess_mode="mostrecent")
        return self._counter_cls(name=PREFIX + name, documentation=metric.documentation, labelnames=labels)

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, values in transfer_stats_data["data"].items():
            for labels, value in values.items():
                series = self._series[name].labels(*self.per_engine_labelvalues[engine_idx], *labels)
                if isinstance(value, list):
                    for each in value:
                        series.observe(each)
                elif METRICS[name.removeprefix(PREFIX)].kind == "gauge":
                    series.set(value)
                else:
                    series.inc(value)


class FarpageConnector(KVConnectorBase_V1):
    """A block of vLLM's is a page, or with `"pages": "layer"` as many pages as there are layers.

    Blocks come beside vLLM's steps, while their request waits; pages of layers come within the step
    that needs them. Each load ends by `timeout_ms`, and vLLM computes the blocks that did not come.
    Without a node everything is a miss.
    """

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        transfer = vllm_config.kv_transfer_config
        self._settings = Settings.of(transfer.kv_connector_extra_config)
        check_version("vLLM", vllm.__version__, self._settings.allow_untested)
        refuse_unfit(vllm_config, kv_cache_config)
        self._loads, self._stores = transfer.is_kv_consumer, transfer.is_kv_producer
        self._is_layered = self._settings.pages == "layer"
        self._worker: WorkerSide | None = None
        self._scheduler: SchedulerSide | None = None
        self._gathered = Gathered(PREFIX)
        if role == KVConnectorRole.SCHEDULER:
            self._scheduler = SchedulerSide(self._settings, vllm_config.cache_config.block_size, self._gathered.figures, loads=self._loads, stores=self._stores,
                                            loads_ahead=not self._is_layered)

    # A store that is dropped is a later miss.
    requires_kv_delivery = False

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config: dict[str, Any]) -> bool:
        return bool(extra_config.get("pages") == "layer")

    # ---- Worker

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        cache = cache_blocks(kv_caches, self._kv_cache_config.num_blocks)
        self._worker = WorkerSide(self._settings, cache, space_of(self._vllm_config, cache, self._settings), self._gathered.figures, loads=self._loads,
                                  stores=self._stores)

    def get_handshake_metadata(self) -> KVConnectorHandshakeMetadata | None:
        return None if self._worker is None else FarpageHandshake(self._worker.shard)

    def _plan(self) -> Plan:
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, FarpageMetadata)
        return metadata.plan

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        if self._worker is not None:
            self._worker.start(self._plan())

    def wait_for_layer_load(self, layer_name: str) -> None:
        if self._worker is not None:
            self._worker.wait_layer(layer_name)

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """Blocks are stored a step later, once vLLM has taken what this one computed."""

    def wait_for_save(self) -> None:
        if self._worker is not None:
            self._worker.save(self._plan())

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        return (None, None) if self._worker is None else self._worker.ended()

    def get_block_ids_with_load_errors(self) -> set[int]:
        return set() if self._worker is None else self._worker.take_failed()

    @answering(lambda *_: None)
    def build_connector_worker_meta(self) -> KVConnectorWorkerMetadata | None:
        measured = {} if self._worker is None else self._worker.take_measured()
        return FarpageLoads(measured) if measured else None

    @answering(lambda *_: None)
    def get_kv_connector_stats(self) -> KVConnectorStats | None:
        return self._gathered.take()

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> KVConnectorStats | None:
        return OffloadingConnectorStats(data=data or {})

    @classmethod
    def build_prom_metrics(cls, vllm_config: Any, metric_types: Any, labelnames: list[str], per_engine_labelvalues: Any) -> ConnectorMetrics:
        return ConnectorMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    # ---- Scheduler

    @answering(lambda *_: None)
    def set_xfer_handshake_metadata_pp_aware(self, metadata: dict[tuple[int, int], KVConnectorHandshakeMetadata]) -> None:
        if self._scheduler is not None:
            self._scheduler.set_shards(each.shard for each in metadata.values() if isinstance(each, FarpageHandshake))

    @answering(lambda *_: None)
    def on_new_request(self, request: Any) -> None:
        if self._scheduler is not None:
            self._scheduler.begin(request)

    @answering(lambda *_: (0, False))
    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        assert self._scheduler is not None
        tokens = self._scheduler.matched(request, num_computed_tokens)
        return tokens, bool(tokens) and not self._is_layered

    @answering(lambda *_: None)
    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        assert self._scheduler is not None
        self._scheduler.allocated(request, blocks.get_block_ids()[0], num_external_tokens)

    @answering(lambda *_: FarpageMetadata(Plan()))
    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        assert self._scheduler is not None and self._kv_cache_manager is not None
        manager = self._kv_cache_manager
        return FarpageMetadata(self._scheduler.plan(scheduler_output.num_scheduled_tokens, lambda name: manager.get_block_ids(name)[0]))

    @answering(lambda *_: None)
    def update_connector_output(self, connector_output: Any) -> None:
        assert self._scheduler is not None
        told = connector_output.kv_connector_worker_meta
        self._scheduler.ended(connector_output.finished_recving or (), connector_output.invalid_block_ids or set(),
                              told.loads if isinstance(told, FarpageLoads) else {})

    @answering(lambda *_: (False, None))
    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        assert self._scheduler is not None
        return self._scheduler.finished(request, block_ids), None

    @answering(lambda *_: False)
    def reset_cache(self) -> bool | None:
        if self._scheduler is not None:
            self._scheduler.reset()
        return True

    # ----

    @answering(lambda *_: None)
    def shutdown(self) -> None:
        worker, self._worker = self._worker, None
        for side in (worker, self._scheduler):
            if side is not None:
                side.close()
