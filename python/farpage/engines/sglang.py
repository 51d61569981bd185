"""Storage of SGLang's hierarchical cache whose pages lie on memory nodes: a backend of its kind
`dynamic`, with `--hicache-storage-backend-extra-config`

    {"backend_name": "farpage", "module_path": "farpage.engines.sglang",
     "class_name": "FarpageStorage", "interface_v1": 1, "node": "/run/farpage/node.sock"}

docs/engines.md explains its settings. SGLang 0.5.23.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy
import sglang
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolHitPolicy, PoolName, PoolTransferResult

import farpage
from farpage.engines.connection import Connection
from farpage.engines.figures import Figures, publisher
from farpage.engines.guard import answering
from farpage.engines.lookups import is_any_late
from farpage.engines.namespaces import Epoch
from farpage.engines.settings import check, refuse_others
from farpage.engines.sglang_pools import HostPool, Lot, whole_pages
from farpage.engines.sglang_facts import check_version, is_shared, is_stored_by_one_rank, space_of
from farpage.engines.worth import Worth

# Of the extra config, what is not for the client.
SGLANGS_KEYS = ("backend_name", "module_path", "class_name", "interface_v1", "allocator")
KV = PoolName.KV.value
KEYS_AT_ONCE = 1 << 16  # in one question
UNTOLD = 255  # why a page is not there: it could not be asked for
_log = logging.getLogger("farpage")


def leading(there: Any) -> int:
    return len(there) if there.all() else int(there.argmin())


class FarpageStorage(HiCacheStorage):  # type: ignore[misc]
    """SGLang calls it from three threads of its own, which ask, load and store, and waits for each
    answer. A question or a load takes `timeout_ms` at most, and a store `store_timeout_ms`. When it
    returns, nothing reads or writes SGLang's memory any more.
    """

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        settings = dict(storage_config.extra_config or {})
        check(**settings)
        check_version(sglang.__version__, settings.pop("allow_untested", False))
        self._is_copied = not settings.get("interface_v1")
        for name in SGLANGS_KEYS:
            settings.pop(name, None)
        self._timeout_s, self._store_timeout_s = settings.pop("timeout_ms", 200) / 1000, settings.pop("store_timeout_ms", 2000) / 1000
        self._dtype, self._salt = settings.pop("dtype", ""), settings.pop("salt", "")
        self.figures = Figures(publisher("sglang") if storage_config.enable_storage_metrics else None)
        self._worth = Worth(self.figures, is_on=settings.pop("cost_model", False), tokens_per_s=settings.pop("prefill_tokens_per_s", 0))
        refuse_others("FarpageStorage", settings)
        self._page_tokens = 0
        self._config, self._settings = storage_config, settings
        self._pools: dict[str, HostPool] = {}
        self._epoch = Epoch()
        self._regions: list[farpage.Region] = []
        self._client: farpage.Client | None = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()  # of pools and regions, while a client comes
        self._moved: list[tuple[bool, int, float]] = []  # whether loaded, pages, GB a second

    # ---- Memory

    @answering(lambda *_: None)
    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        self._page_tokens = mem_pool_host.page_size
        self._add(KV, mem_pool_host)
        if self._connection is None:
            self._connection = Connection(self._settings, self._prepare, self._pools[KV].space)

    @answering(lambda *_: None)
    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self._add(str(host_pool_name), host_pool)

    def _add(self, name: str, pool: Any) -> None:
        if name in self._pools and self._pools[name].pool is pool:
            return
        if is_stored_by_one_rank(self._config, name, pool):
            _log.warning("farpage: with a target of MLA, SGLang stores the pool %s of its draft from the first rank of tensor parallelism alone, and each of "
                         "the %d ranks has another part: no prefix is found. Use --tp-size 1, or another draft", name, self._config.tp_size)
        added = HostPool(pool, space_of(self._config, name, pool, self._dtype, self._salt), self._epoch, is_copied=self._is_copied and name == KV)
        with self._lock:
            if self._client is not None:
                self._register(self._client, added)
            self._pools[name] = added

    def _prepare(self, client: farpage.Client) -> None:
        with self._lock:
            self._regions = []
            for pool in self._pools.values():
                self._register(client, pool)
            self._client = client

    def _register(self, client: farpage.Client, pool: HostPool) -> None:
        longest = max(pool.part_bytes, default=0)
        if longest > client.page_bytes:
            raise farpage.InvalidError(f"parts of SGLang's pages have {longest} bytes, and the nodes' pages {client.page_bytes}: start the nodes with "
                                       f"--page-bytes {longest}, or set a smaller --page-size")
        for tensor in [] if pool.is_copied else pool.buffers():
            first, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
            if not any(region.address <= first and end <= region.address + region.bytes for region in self._regions):
                self._regions = [*self._regions, client.register(tensor)]

    # ---- Pages that are there

    def _find(self, pools: Sequence[HostPool | None], names: Sequence[str]) -> list[Any]:
        """Of each pool, an array: whether each page is there, with all its parts. Beyond the first
        page that the first pool lacks the arrays may end."""
        client, begun_s = self._client, time.monotonic()
        chosen = [pool for pool in pools if pool is not None]
        if client is None or len(chosen) < len(pools):
            return [numpy.zeros(len(names), bool) for _ in pools]
        found: list[list[Any]] = [[] for _ in pools]
        at_once = max(1, KEYS_AT_ONCE // max(1, sum(pool.parts for pool in chosen)))
        is_late = False
        for first in range(0, len(names), at_once):
            part = names[first:first + at_once]
            keys = [pool.keys(part) for pool in chosen]
            answers = client.exists(numpy.concatenate(keys), timeout_s=max(0.0, begun_s + self._timeout_s - time.monotonic())).wait()
            is_late |= is_any_late(answers["reason"].tolist())
            parts = numpy.split(answers["verdict"] == farpage.Verdict.READY, numpy.cumsum([len(each) for each in keys])[:-1])
            for arrays, there in zip(found, parts):
                arrays.append(numpy.array(whole_pages(there, len(part)), bool))
            if not found[0][-1].all():
                break
        self.figures.add("seconds", "lookup", time.monotonic() - begun_s)
        if is_late:
            self.figures.add("stalls", "lookup")
        return [numpy.concatenate(arrays) for arrays in found]

    def _is_worth(self, pages: int, pools: Sequence[HostPool]) -> bool:
        """Of a prefix that is there: whether to load it."""
        self.figures.add("pages", "found", pages)
        if not pages or self._worth.is_worth(pages * self._page_tokens, pages * sum(sum(pool.part_bytes) for pool in pools)):
            return True
        self.figures.add("pages", "slower", pages)
        return False

    @answering(lambda *_: 0)
    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        pool = self._pools.get(KV)
        if not keys or pool is None or pool.is_empty:
            return 0
        length = leading(self._find([pool], keys)[0])
        return length if self._is_worth(length, [pool]) else 0

    @answering(lambda *_: False)
    def exists(self, key: str) -> bool:
        return bool(self.batch_exists([key]) == 1)

    @answering(lambda *_: PoolTransferResult.empty())
    def batch_exists_v2(self, keys: list[str], pool_transfers: Any = None, extra_info: Any = None) -> PoolTransferResult:
        """The lengths that the prefix may have, so that each pool has what SGLang needs there: all
        pages before, or the last ones."""
        # Those by groups of blocks never end a prefix.
        transfers = [each for each in pool_transfers or [] if each.hit_policy != PoolHitPolicy.BLOCK_GROUPS]
        pools = [self._pools.get(str(name)) for name in [KV, *(each.name for each in transfers)]]
        if not keys:
            return PoolTransferResult.empty()
        found = self._find(pools, keys)
        length = leading(found[0])
        hits: dict[Any, int] = {PoolName.KV: length} if length else {}
        can_end = numpy.ones(length, bool)  # after each page
        for transfer, there in zip(transfers, found[1:]):
            place = numpy.arange(length)
            gap = numpy.maximum.accumulate(numpy.where(there[:length], -1, place))  # the last one
            wanted = max(1, len(transfer.keys or [])) if transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES else length
            ends = place - gap >= numpy.minimum(wanted, place + 1)
            if ends.any():
                hits[transfer.name] = int(numpy.flatnonzero(ends)[-1]) + 1
            can_end &= ends
        lengths = (numpy.flatnonzero(can_end) + 1).tolist()
        if lengths and not self._is_worth(lengths[-1], [pool for pool in pools if pool is not None]):
            return PoolTransferResult.empty()
        return PoolTransferResult(lengths[-1] if lengths else 0, hits, lengths)

    # ---- Pages that move

    def _move(self, lots: Sequence[Lot], *, is_load: bool) -> list[list[bool]]:
        """Which pages of each lot are whole. Blocks until nothing touches their memory."""
        client, begun_s = self._client, time.monotonic()
        end_s = begun_s + (self._timeout_s if is_load else self._store_timeout_s)
        if client is None:
            self.figures.add("pages", "refused" if is_load else "dropped", sum(lot.pages for lot in lots))
            return [[False] * lot.pages for lot in lots]
        # What a verdict's reason or a put's code says of each part; 0: it is there.
        whys = [numpy.full(len(lot.keys), UNTOLD) for lot in lots]
        tickets: list[tuple[Any, Any, farpage.Ticket]] = []
        try:
            for lot, why in zip(lots, whys):
                for chosen, memory in lot.places:
                    left_s = max(0.0, end_s - time.monotonic())
                    names = lot.keys[chosen]
                    ticket = client.fetch(names, memory, timeout_s=left_s) if is_load else client.put(names, memory, timeout_s=left_s)
                    tickets.append((why, chosen, ticket))
            for why, chosen, ticket in tickets:
                result = ticket.wait()
                is_good = result["verdict"] == farpage.Verdict.READY if is_load else result["code"] == farpage.Code.OK
                why[chosen] = numpy.where(is_good, 0, result["reason" if is_load else "code"])
        finally:
            for _, _, ticket in tickets:
                ticket.wait_released()
            self._count(lots, whys, time.monotonic() - begun_s, is_load=is_load)
        return [whole_pages(why == 0, lot.pages) for lot, why in zip(lots, whys)]

    def _count(self, lots: Sequence[Lot], whys: Sequence[Any], took_s: float, *, is_load: bool) -> None:
        operation, good, moved, tokens, is_late = "load" if is_load else "store", 0, 0, 0, False
        for lot, why in zip(lots, whys):
            if not len(why):
                continue
            parts = why.reshape(lot.pages, -1)
            # Of each page: why the first part that is not there is not.
            first = parts[numpy.arange(lot.pages), (parts != 0).argmax(axis=1)]
            whole = int((first == 0).sum())
            good, moved = good + whole, moved + whole * lot.page_bytes
            tokens = max(tokens, whole * self._page_tokens)
            for number in first[first != 0].tolist():
                self.figures.add("pages", "not stored" if not is_load else "refused" if number == UNTOLD else farpage.Reason(number).name.lower())
            is_late |= is_any_late(first.tolist()) if is_load else bool((first == farpage.Code.TIMEOUT).any())
        self.figures.add("pages", "ready" if is_load else "stored", good)
        self.figures.add("bytes", operation, moved)
        self.figures.add("seconds", operation, took_s)
        if is_late:
            self.figures.add("stalls", operation)
        if is_load and (moved or is_late):
            self._worth.loaded(moved, tokens, took_s)

    def _move_pools(self, asked: Sequence[tuple[HostPool | None, Sequence[str], Any]], *, is_load: bool) -> list[list[bool]]:
        begun_s = time.monotonic()
        if any(pool is None for pool, _, _ in asked):
            return [[False] * len(names) for _, names, _ in asked]
        lots = [pool.lot(names, indices, self._regions, is_load=is_load) for pool, names, indices in asked if pool is not None]
        moved = self._move(lots, is_load=is_load)
        for (pool, _, indices), lot, whole in zip(asked, lots, moved):
            if is_load and pool is not None:
                pool.keep(lot, whole, indices)
        if self._config.enable_storage_metrics:
            total = sum(sum(whole) * lot.page_bytes for lot, whole in zip(lots, moved))
            self._moved.append((is_load, sum(map(sum, moved)), total / 1e9 / max(1e-9, time.monotonic() - begun_s)))
        return moved

    @answering(lambda keys, *_: [False] * len(keys))
    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._move_pools([(self._pools.get(KV), keys, host_indices)], is_load=True)[0]

    @answering(lambda keys, *_: [False] * len(keys))
    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._move_pools([(self._pools.get(KV), keys, host_indices)], is_load=False)[0]

    @answering(lambda transfers, *_: {each.name: [False] * len(each.keys or []) for each in transfers})
    def batch_get_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[str, list[bool]]:
        return self._move_v2(transfers, is_load=True)

    @answering(lambda transfers, *_: {each.name: [False] * len(each.keys or []) for each in transfers})
    def batch_set_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[str, list[bool]]:
        return self._move_v2(transfers, is_load=False)

    def _move_v2(self, transfers: list[Any], *, is_load: bool) -> dict[str, list[bool]]:
        asked = [(self._pools.get(str(each.name)), each.keys or [], each.host_indices) for each in transfers]
        return {each.name: whole for each, whole in zip(transfers, self._move_pools(asked, is_load=is_load))}

    # ---- Whole pages, copied by SGLang: without "interface_v1"

    def _move_tensors(self, keys: Sequence[str], tensors: Sequence[Any], *, is_load: bool) -> list[bool]:
        pool = self._pools.get(KV)
        if pool is None or not keys or len(tensors) != len(keys):
            return [False] * len(keys)
        lot = Lot(len(keys), sum(pool.part_bytes), pool.keys(keys), [] if pool.is_empty else [(slice(None), list(tensors))])
        return self._move([lot], is_load=is_load)[0]

    @answering(lambda keys, *_: [None] * len(keys))
    def batch_get(self, keys: list[str], target_locations: Any = None, target_sizes: Any = None) -> list[Any]:
        targets = target_locations or []
        whole = self._move_tensors(keys, targets, is_load=True)
        return [targets[number] if is_whole else None for number, is_whole in enumerate(whole)]

    @answering(lambda *_: None)
    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        return self.batch_get([key], [target_location])[0]

    @answering(lambda *_: False)
    def batch_set(self, keys: list[str], values: Any = None, target_locations: Any = None, target_sizes: Any = None) -> bool:
        return all(self._move_tensors(keys, [value.contiguous() for value in values or []], is_load=False))

    @answering(lambda *_: False)
    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return bool(self.batch_set([key], [value]))

    # ---- The rest

    @answering(lambda *_: None)
    def get_stats(self) -> Any:
        from sglang.srt.observability.metrics_collector import StorageMetrics

        moved, self._moved = self._moved, []
        stats = StorageMetrics()
        for is_load, pages, speed in moved:
            (stats.prefetch_pgs if is_load else stats.backup_pgs).append(pages)
            (stats.prefetch_bandwidth if is_load else stats.backup_bandwidth).append(speed)
        return stats

    def clear(self) -> None:
        """Pages of other engines lie beside these, and nobody knows all that were stored. So those
        of before are not found any more, and those that come have names of this storage alone.
        Ranks that share pages cannot agree on such names: InvalidError, of which SGLang makes a
        clear that failed, and nothing is found or stored from then on."""
        self._epoch.begin()
        if self._config.tp_size > 1 and any(is_shared(self._config, name, pool.pool) for name, pool in self._pools.items()):
            self._client = None
            raise farpage.InvalidError("ranks of tensor parallelism share this model's pages, and cannot begin anew one by one: every page is a miss until "
                                       "the storage is detached, and attached with another \"salt\"")

    @answering(lambda *_: None)
    def close(self) -> None:
        self._client, connection = None, self._connection
        if connection is not None:
            connection.close()
        self._regions, self._pools = [], {}
