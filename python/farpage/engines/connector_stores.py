"""Stores of whole blocks, copied while vLLM keeps them."""

from __future__ import annotations

import dataclasses
import logging
import time

import numpy

import farpage
from farpage.engines.connector_memory import CacheBlocks, Staging
from farpage.engines.connector_plan import Blocks, Shard
from farpage.engines.figures import Figures
from farpage.engines.guard import tell

_log = logging.getLogger("farpage")


@dataclasses.dataclass
class _Store:
    slots: list[int]
    begun_s: float
    tickets: list[farpage.Ticket] = dataclasses.field(default_factory=list)
    is_refused: bool = False  # some pages could not be submitted: their blocks are misses


class Stores:
    """Blocks are copied to `staging` when they are submitted, and go from there: vLLM may reuse
    them at once. Blocks that find no room are dropped. One thread uses it."""

    def __init__(self, cache: CacheBlocks, staging: Staging, shard: Shard, timeout_s: float, figures: Figures) -> None:
        self._cache, self._staging, self._shard, self._timeout_s, self._figures = cache, staging, shard, timeout_s, figures
        lengths = cache.lengths if shard.parts > 1 else [cache.block_bytes]
        # One put moves pages of one length.
        self._parts = [(length, [part for part, each in enumerate(lengths) if each == length]) for length in dict.fromkeys(lengths)]
        self._firsts: list[int] = numpy.cumsum([0, *lengths]).tolist()
        self._under_way: list[_Store] = []

    def submit(self, client: farpage.Client | None, blocks: Blocks) -> None:
        """Copies the blocks, and does not wait for the nodes."""
        slots = self._staging.take(len(blocks.names)) if client is not None else []
        self._figures.add("pages", "dropped", len(blocks.names) - len(slots))
        if client is None or not slots:
            return
        try:
            self._cache.read(blocks.numbers[:len(slots)], self._staging.rows, slots)
        except RuntimeError as error:  # as PyTorch says that a GPU has no memory left
            _log.error("farpage: blocks are not stored, because they cannot be read: %s", error)
            self._staging.give_back(slots)
            self._figures.add("pages", "dropped", len(slots))
            return
        store = _Store(slots, time.monotonic())
        self._under_way.append(store)
        keys = self._shard.keys(blocks.names[:len(slots)])
        try:
            for length, parts in self._parts:
                pages = self._staging.pages(slots, [self._firsts[part] for part in parts], length)
                store.tickets.append(client.put(keys[:, parts].reshape(-1, keys.shape[-1]), pages, timeout_s=self._timeout_s))
        except Exception as error:
            if not isinstance(error, farpage.FarpageError):  # which the counts tell
                tell(self, "store", error)
            store.is_refused = True

    def poll(self) -> None:
        """Takes what has ended. Does not block."""
        under_way, self._under_way = self._under_way, []
        for store in under_way:
            if all(ticket.released for ticket in store.tickets):
                self._staging.give_back(store.slots)
                self._judge(store)
            else:
                self._under_way.append(store)

    def _judge(self, store: _Store) -> None:
        if store.is_refused:
            self._figures.add("pages", "dropped", len(store.slots))
            return
        good, is_late = numpy.ones(len(store.slots), bool), False
        try:
            for ticket in store.tickets:
                codes = ticket.result()["code"]
                good &= (codes == farpage.Code.OK).reshape(len(good), -1).all(axis=1)
                is_late |= bool((codes == farpage.Code.TIMEOUT).any())
        except Exception as error:
            tell(self, "store", error)
            good[:] = False
        stored = int(good.sum())
        for name, label, value in (("pages", "stored", stored), ("pages", "not stored", len(good) - stored), ("bytes", "store", stored * self._cache.block_bytes),
                                   ("seconds", "store", time.monotonic() - store.begun_s), ("stalls", "store", is_late)):
            self._figures.add(name, label, value)
