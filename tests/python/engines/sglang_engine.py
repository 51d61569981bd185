"""SGLang's own cache code (0.5.23) without a GPU: its controllers, host pools and threads."""

import importlib.util
import os
import pathlib
import platform
import sys
import threading
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy  # noqa: E402
import torch  # noqa: E402
from program import Case, wait_until  # noqa: E402


def stand_in_for_triton():
    """SGLang imports Triton everywhere, and brings a stand-in for Macs: here it takes that too."""
    import torch._dynamo  # noqa: F401
    import torch._functorch.aot_autograd
    import torch.utils.flop_counter  # noqa: F401

    if importlib.util.find_spec("triton") is not None:
        return
    folder = importlib.util.find_spec("sglang").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("sglang_stand_ins", f"{folder}/_platform_stubs.py")
    stand_ins = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = stand_ins
    spec.loader.exec_module(stand_ins)
    with mock.patch.object(sys, "platform", "darwin"), mock.patch.object(platform, "machine", lambda: "arm64"), \
            mock.patch("torch.backends.mps.is_available", lambda: True):
        stand_ins.install_platform_stubs()


stand_in_for_triton()
import torch.distributed  # noqa: E402
from sglang.srt.managers.cache_controller import HiCacheController  # noqa: E402
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator  # noqa: E402
from sglang.srt.mem_cache.base_prefix_cache import CacheRequestHandle  # noqa: E402
from sglang.srt.mem_cache.device_pool_info import MambaStateBufferInfo  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import (  # noqa: E402
    HiCacheStorageConfig,  # noqa: F401
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
    PoolTransferResult,  # noqa: F401
)
from sglang.srt.mem_cache.hybrid_cache import hybrid_cache_controller as hybrid  # noqa: E402
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool  # noqa: E402
from sglang.srt.mem_cache.memory_pool_host import LogicalHostPool  # noqa: E402, F401
from sglang.srt.mem_cache.pool_host.group import HostPoolGroup, PoolEntry  # noqa: E402
from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost  # noqa: E402
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost  # noqa: E402
from sglang.srt.mem_cache.radix_cache import RadixKey  # noqa: E402
from sglang.srt.mem_cache.utils import get_storage_hash_str  # noqa: E402
from sglang.srt.runtime_context import get_parallel  # noqa: E402

import farpage  # noqa: E402

PAGES = 20
PAGE_TOKENS, LAYERS, HEADS, HEAD_DIM, TOKENS = 64, 4, 2, 64, 64 * 64
PATIENCE_S = 60


def start_process_group():
    """What SGLang's scheduler has: one process, without tensor parallelism."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        get_parallel().override_permanently(
            tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_dcp_size=1, attn_dcp_rank=0, launch_world_size=1, nnodes=1)


def device_pool(dtype=torch.bfloat16):
    pool = MHATokenToKVPool(TOKENS, PAGE_TOKENS, dtype, HEADS, HEAD_DIM, LAYERS, "cpu", False, enable_alt_stream=False)
    return pool, PagedTokenToKVPoolAllocator(TOKENS, PAGE_TOKENS, dtype, "cpu", pool, False)


def host_pool(pool, layout, ratio=2.0, allocator="default"):
    return MHATokenToKVPoolHost(pool._mha_buffer_info(), ratio, 0, PAGE_TOKENS, layout, pin_memory=False, device="cpu",
                                device_capacity_tokens=TOKENS, start_layer=0, end_layer=LAYERS, allocator_type=allocator)


def mamba_pool(side_state=False):
    """Of 16 states, each of parts that differ in length and type; with side states, which have no
    memory that SGLang would name."""
    state = MambaStateBufferInfo(
        temporal=torch.zeros((3, 16, 2, 8, 16)), conv=(torch.zeros((3, 16, 24, 3), dtype=torch.bfloat16), torch.zeros((3, 16, 8, 3), dtype=torch.bfloat16)),
        extra_checkpoint_buffers=(torch.zeros((16, 5), dtype=torch.bfloat16),) if side_state else ())
    return MambaPoolHost(state, 2.0, 0, device_capacity=16, pin_memory=False, device="cpu", layout="page_first")


def tokens(first, pages):
    return list(range(first, first + pages * PAGE_TOKENS))


class HasController:
    """`controller`: of SGLang's, with our storage attached."""

    @property
    def storage(self):
        """Ours, also within the injector of SGLang's."""
        return getattr(self.controller.storage_backend, "_backend", self.controller.storage_backend)

    def close(self):
        if self.controller.storage_backend is not None:
            self.controller.detach_storage_backend()


class Engine(HasController):
    """A controller of SGLang's, used as its scheduler does. `side`: {name: hit policy} of side
    pools, each of pages like KV's, which make it a HybridCacheController."""

    def __init__(self, layout="page_first", model="m", side=None, kv_dtype=torch.bfloat16, host_allocator="default", **extra):
        start_process_group()
        pool, allocator = device_pool(kv_dtype)
        self.host = host_pool(pool, layout, allocator=host_allocator)
        self.side = {name: (host_pool(pool, layout), policy) for name, policy in (side or {}).items()}
        extra = {"backend_name": "farpage", "module_path": "farpage.engines.sglang", "class_name": "FarpageStorage", "interface_v1": 1, **extra}
        options = {"write_policy": "write_through", "io_backend": "direct", "storage_backend": "dynamic", "prefetch_threshold": PAGE_TOKENS,
                   "model_name": model, "storage_backend_extra_config": extra}
        place = (PAGE_TOKENS, torch.distributed.group.WORLD, threading.Event())
        self.is_hybrid = side is not None
        if self.is_hybrid:
            entries = [PoolEntry(PoolName.KV, self.host, pool, lambda layer: layer, is_primary_index_anchor=True)]
            entries += [PoolEntry(name, each, pool, lambda layer: layer) for name, (each, _) in self.side.items()]
            self.controller = hybrid.HybridCacheController(allocator, HostPoolGroup(entries), *place, **options)
        else:
            self.controller = HiCacheController(allocator, self.host, *place, **options)

    def pages(self, indices, host=None):
        host = host or self.host
        return [host.get_data_page(int(index), flat=True).clone() for index in indices[::PAGE_TOKENS]]

    def _fill(self, host, indices, seed):
        generator = torch.Generator().manual_seed(seed)
        for index in indices[::PAGE_TOKENS]:
            page = torch.randn(host.get_dummy_flat_data_page().shape, generator=generator)
            host.set_from_flat_data_page(int(index), page.to(host.dtype))

    def hashes(self, token_ids):
        return get_storage_hash_str(RadixKey(token_ids), None, page_size=PAGE_TOKENS)

    def store(self, token_ids):
        """(pages of KV, {name: pages of the side pool}) and how many were backed up."""
        hashes = self.hashes(token_ids)
        indices = self.host.alloc(len(token_ids))
        self._fill(self.host, indices, token_ids[0])
        wanted, side, transfers = self.pages(indices), {}, []
        for number, (name, (host, policy)) in enumerate(self.side.items()):
            count = len(hashes) if policy == PoolHitPolicy.ALL_PAGES else 2
            places = indices if policy == PoolHitPolicy.ALL_PAGES else host.alloc(count * PAGE_TOKENS)
            self._fill(host, places, token_ids[0] + 1 + number)
            side[name] = self.pages(places, host)
            is_derived = policy == PoolHitPolicy.ALL_PAGES
            transfers.append(PoolTransfer(name, keys=hashes[-count:], host_indices=places, hit_policy=policy,
                                          indices_from_pool=PoolName.KV if is_derived else None))
        more = {"extra_pools": transfers or None} if self.is_hybrid else {}
        self.controller.write_storage(indices, token_ids, hash_value=hashes, **more)
        operation = self.controller.ack_backup_queue.get(timeout=PATIENCE_S)
        self.host.free(indices)
        for host, policy in self.side.values():
            if policy != PoolHitPolicy.ALL_PAGES:
                host.clear()
        self.last = wanted, side, operation.completed_tokens // PAGE_TOKENS
        return self.last

    def load(self, token_ids, between=lambda: None):
        """(pages that the question found, pages that were loaded, hits of side pools, those of KV,
        those of side pools). `between` the question and the load, the world may change."""
        more = {}
        if self.is_hybrid:
            hashes = self.hashes(token_ids)
            more["extra_pools"] = [
                PoolTransfer(name, keys=hashes[-2:], host_indices=host.alloc(2 * PAGE_TOKENS), hit_policy=policy)
                if policy != PoolHitPolicy.ALL_PAGES else PoolTransfer(name, hit_policy=policy, indices_from_pool=PoolName.KV)
                for name, (host, policy) in self.side.items()] or None
        request = CacheRequestHandle("r", 0) if self.is_hybrid else "r"
        self.controller.prefetch(request, RadixKey(token_ids), None, **more)
        operation = self.controller.prefetch_hit_queue.get(timeout=PATIENCE_S)
        found, loaded, hits = operation.storage_hit_count // PAGE_TOKENS, 0, {}
        if not found:
            return 0, 0, hits, [], {}
        between()
        operation.host_indices = self.host.alloc(operation.storage_hit_count)
        if self.is_hybrid and operation.pool_transfers:
            self.controller._resolve_sidecar_kv_derived_pool_transfers(operation)
        self.controller.prefetch_buffer.put(operation)
        while True:
            ack = self.controller.ack_prefetch_queue.get(timeout=PATIENCE_S)
            if ack.completed_tokens is not None:
                loaded = ack.completed_tokens // PAGE_TOKENS
            hits.update(getattr(ack, "pool_hits", None) or {})
            if ack.completed_req:
                break
        side = {each.name: self.pages(each.host_indices, self.side[each.name][0]) for each in getattr(operation, "pool_transfers", None) or []}
        pages = self.pages(operation.host_indices)[:loaded]
        self.host.free(operation.host_indices)
        return found, loaded, hits, pages, side


class StorageCase(Case):
    """A node, and engines that have stored pages on it."""

    def setUp(self):
        super().setUp()
        self.listen = None
        self.node = self.new_node()

    def new_node(self, **options):
        return self.start_node("--page-bytes", "256KiB", pool="256MiB", listen=self.listen, **options)

    def engine(self, connects=True, **options):
        engine = Engine(node=self.node.address, **{"timeout_ms": 30_000, "store_timeout_ms": 30_000, **options})
        self.addCleanup(engine.close)
        if connects:
            self.assertTrue(wait_until(lambda: engine.storage._client is not None), engine.storage._connection.why_not)
        return engine

    def stored(self, **options):
        """An engine that has stored PAGES pages."""
        engine = self.engine(**options)
        self.assertTrue(wait_until(lambda: engine.store(tokens(1000, PAGES))[2] == PAGES))
        wanted, side, _ = engine.last
        engine.host.kv_buffer.zero_()
        return engine, wanted, side

    def drop(self, engine, page, part, pool=PoolName.KV):
        """Removes a part of a page behind the engine's back."""
        keys = engine.storage._pools[pool.value].keys([engine.hashes(tokens(1000, PAGES))[page]])
        self.assertEqual(engine.storage._client.remove(keys[part:][:1]).wait(), 1)

    def await_unreachable(self, engine):
        """Over shm a node is read for as long as the view's lease lasts."""
        client, into = engine.storage._client, numpy.zeros(64, numpy.uint8)
        self.assertTrue(wait_until(lambda: client.fetch(b"x" * 16, into, timeout_s=0.1).wait()["reason"][0] != farpage.Reason.MISS))
