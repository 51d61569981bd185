"""Loads of blocks into vLLM's KV cache: whole blocks beside its steps, or layer by layer within
one."""

from __future__ import annotations

import collections
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy

import farpage
from farpage.engines.connector_memory import CacheBlocks, Landing, Room
from farpage.engines.connector_plan import Blocks, Load, Shard
from farpage.engines.figures import Figures
from farpage.engines.guard import tell
from farpage.engines.lookups import is_any_late

READY = farpage.Verdict.READY
_log = logging.getLogger("farpage")


def _count(figures: Figures, good: Any, reasons: Any, block_bytes: int, took_s: float) -> None:
    """A load of blocks, by what became of them; `reasons` of those that did not come."""
    ready = int(good.sum())
    figures.add("pages", "ready", ready)
    figures.add("bytes", "load", ready * block_bytes)
    figures.add("seconds", "load", took_s)
    lost = reasons.tolist()
    for reason in lost:
        figures.add("pages", farpage.Reason(reason).name.lower())
    if is_any_late(lost):
        figures.add("stalls", "load")


def _took_s(verdicts: Any) -> float:
    return float(verdicts["took_ns"].max(initial=0)) / 1e9


@dataclasses.dataclass
class _Request:
    begun_s: float
    waiting: collections.deque[tuple[bytes, int]]  # names and numbers of blocks
    may_begin: Callable[[], bool] = lambda: True
    until_s: float = math.inf  # until it may begin, vLLM's own work is in its way
    under_way: int = 0  # blocks
    came: int = 0  # blocks
    took_s: float = 0.0  # from its begin to the last answer

    @property
    def has_ended(self) -> bool:
        return not self.waiting and not self.under_way


@dataclasses.dataclass
class _Fetch:
    request: _Request
    begun_s: float
    numbers: list[int]
    slots: list[int]
    ticket: farpage.Ticket
    is_judged: bool = False


class BlockLoads:
    """A page is a block of all layers. It comes where `landing` says, and is in the cache when
    `poll()` says that its request has ended. What has not come `timeout_s` after it could begin has
    failed. One thread uses it."""

    def __init__(self, block_bytes: int, shard: Shard, timeout_s: float, figures: Figures) -> None:
        self._block_bytes, self._shard, self._timeout_s, self._figures = block_bytes, shard, timeout_s, figures
        self.landing = Landing(Room(0))  # until there is a client, with whom another is set
        self._requests: dict[str, _Request] = {}
        self._fetches: list[_Fetch] = []
        self._failed: set[int] = set()
        self._measured: dict[str, Load] = {}

    def begin(self, client: farpage.Client | None, blocks: Blocks) -> None:
        now = time.monotonic()
        request = _Request(now, collections.deque(zip(blocks.names, blocks.numbers)))
        self._requests[blocks.request] = request
        try:
            request.may_begin = self.landing.mark()
        except Exception as error:  # as PyTorch tells of an error of the GPU
            self._refuse(request, error)
        self._go_on(client)

    def poll(self, client: farpage.Client | None) -> set[str]:
        """The requests whose loads have ended since the last call. Does not block."""
        fetches, self._fetches = self._fetches, []
        for fetch in fetches:
            if not fetch.is_judged and self.landing.can_judge(fetch.ticket):
                self._judge(fetch)
            if fetch.is_judged and fetch.ticket.released:
                self.landing.room.give_back(fetch.slots)
            else:
                self._fetches.append(fetch)
        self._go_on(client)
        ended = {name for name, request in self._requests.items() if request.has_ended}
        for name in ended:
            request = self._requests.pop(name)
            # What had no answer has taken its time all the same.
            self._measured[name] = Load(request.came, request.took_s or time.monotonic() - request.begun_s)
        return ended

    def take_failed(self) -> set[int]:
        """Blocks that did not come, since the last call."""
        failed, self._failed = self._failed, set()
        return failed

    def take_measured(self) -> dict[str, Load]:
        """By request, the loads that have ended since the last call."""
        measured, self._measured = self._measured, {}
        return measured

    def _go_on(self, client: farpage.Client | None) -> None:
        now = time.monotonic()
        for request in self._requests.values():
            if request.until_s == math.inf and self._may_begin(request):
                request.begun_s, request.until_s = now, now + self._timeout_s
            if request.waiting and (client is None or now >= request.until_s):
                self._fail(request, "unreachable" if client is None else "overdue")
            while client is not None and request.waiting and self.landing.room.free and request.until_s < math.inf:
                self._fetch(client, request, request.until_s - now)

    def _may_begin(self, request: _Request) -> bool:
        try:
            return request.may_begin()
        except Exception as error:
            self._refuse(request, error)
            return False

    def _refuse(self, request: _Request, error: Exception) -> None:
        tell(self, "load", error)
        self._fail(request, "refused")

    def _fetch(self, client: farpage.Client, request: _Request, left_s: float) -> None:
        slots = self.landing.room.take(len(request.waiting))
        blocks = [request.waiting[place] for place in range(len(slots))]
        numbers = [number for _, number in blocks]
        try:
            pages = self.landing.pages(numbers, slots)
            ticket = client.fetch(self._shard.keys([name for name, _ in blocks])[:, 0], pages, timeout_s=left_s)
        except Exception as error:
            if not isinstance(error, farpage.FarpageError):  # which the counts tell
                tell(self, "load", error)
            self.landing.room.give_back(slots)
            self._fail(request, "refused")
            return
        for _ in blocks:
            request.waiting.popleft()
        request.under_way += len(blocks)
        self._fetches.append(_Fetch(request, time.monotonic(), numbers, slots, ticket))

    def _fail(self, request: _Request, how: str) -> None:
        self._figures.add("pages", how, len(request.waiting))
        if how == "overdue":
            self._figures.add("stalls", "load")
        self._failed.update(number for _, number in request.waiting)
        request.waiting.clear()

    def _judge(self, fetch: _Fetch) -> None:
        fetch.is_judged = True
        fetch.request.under_way -= len(fetch.numbers)
        try:
            self._take(fetch, fetch.ticket.result())
        except Exception as error:
            tell(self, "load", error)
            self._figures.add("pages", "refused", len(fetch.numbers))
            self._failed.update(fetch.numbers)

    def _take(self, fetch: _Fetch, verdicts: Any) -> None:
        good = verdicts["verdict"] == READY
        came = numpy.flatnonzero(good).tolist()
        try:
            self.landing.finish([fetch.numbers[place] for place in came], [fetch.slots[place] for place in came])
        except RuntimeError as error:
            _log.error("farpage: blocks are computed, because they cannot be written: %s", error)
            good[:] = False
            self._figures.add("pages", "refused", len(came))
        self._failed.update(number for number, is_good in zip(fetch.numbers, good.tolist()) if not is_good)
        request, took_s = fetch.request, _took_s(verdicts)
        request.came += int(good.sum())
        # It may have waited for room.
        request.took_s = max(request.took_s, fetch.begun_s - request.begun_s + took_s)
        _count(self._figures, good, verdicts["reason"][verdicts["verdict"] != READY], self._block_bytes, took_s)


class LayerLoads:
    """A page is a block of one layer. All layers are asked for when a step begins, straight into
    the cache where a block of a layer has no gaps, and each is waited for when the model needs it.
    What has not come by `timeout_s` has failed. One thread uses it."""

    def __init__(self, cache: CacheBlocks, shard: Shard, timeout_s: float, figures: Figures) -> None:
        self._cache, self._shard, self._timeout_s, self._figures = cache, shard, timeout_s, figures
        self._numbers: list[int] = []  # of this step's blocks
        # Of each layer; and memory for its pages where they cannot go straight into the cache.
        self._tickets: dict[int, tuple[farpage.Ticket, Any]] = {}
        self._reasons: Any = None  # of each block, of the first layer that did not come
        self._took_s = 0.0  # until this step's last answer
        self._failed: set[int] = set()
        self._first, self._begun_s = "", 0.0  # of this step's requests
        self._measured: dict[str, Load] = {}

    def begin(self, client: farpage.Client | None, loads: Sequence[Blocks]) -> None:
        self._numbers = [number for blocks in loads for number in blocks.numbers]
        self._reasons, self._took_s = numpy.zeros(len(self._numbers), numpy.uint32), 0.0
        if not self._numbers:
            return
        self._first, self._begun_s = loads[0].request, time.monotonic()
        until_s = self._begun_s + self._timeout_s
        try:
            if client is None:
                raise farpage.UnavailableError("no node has answered yet")
            keys = self._shard.keys([name for blocks in loads for name in blocks.names])
            self._cache.wait_until_unused()
            for layer, length in enumerate(self._cache.lengths):
                aside = None
                pages: Any = self._cache.pages(layer, self._numbers)
                if pages is None:
                    pages = aside = numpy.empty((len(self._numbers), length), numpy.uint8)
                ticket = client.fetch(keys[:, layer], pages, timeout_s=max(0.0, until_s - time.monotonic()))
                self._tickets[layer] = ticket, aside
        except Exception as error:
            if not isinstance(error, farpage.FarpageError):  # which the counts tell
                tell(self, "load", error)
            self._reasons[:] = farpage.Reason.UNREACHABLE

    def wait(self, name: str) -> None:
        """Blocks until a layer has come or failed, which is by the deadline, and nothing writes to
        it any more."""
        layer = self._cache.place.get(name)
        if layer is not None and layer in self._tickets:
            self._end(layer)

    def end(self) -> None:
        """Blocks until all layers have. It ends the step's loads."""
        for layer in list(self._tickets):
            self._end(layer)
        if self._numbers:
            good = self._reasons == farpage.Reason.NONE
            self._failed.update(numpy.asarray(self._numbers)[~good].tolist())
            _count(self._figures, good, self._reasons[~good], self._cache.block_bytes, self._took_s)
            self._measured[self._first] = Load(int(good.sum()), self._took_s or time.monotonic() - self._begun_s)
            self._numbers = []

    def _end(self, layer: int) -> None:
        ticket, aside = self._tickets.pop(layer)
        try:
            try:
                verdicts = ticket.wait()
            finally:
                ticket.wait_released()
            self._take(layer, verdicts, aside)
        except Exception as error:
            tell(self, "load", error)
            self._reasons[self._reasons == farpage.Reason.NONE] = farpage.Reason.UNREACHABLE

    def _take(self, layer: int, verdicts: Any, aside: Any) -> None:
        good = verdicts["verdict"] == READY
        fresh = ~good & (self._reasons == farpage.Reason.NONE)
        self._reasons[fresh] = verdicts["reason"][fresh]
        self._took_s = max(self._took_s, _took_s(verdicts))
        if aside is not None:
            came = numpy.flatnonzero(good).tolist()
            self._cache.write_layer(layer, [self._numbers[place] for place in came], aside, came)

    def take_failed(self) -> set[int]:
        failed, self._failed = self._failed, set()
        return failed

    def take_measured(self) -> dict[str, Load]:
        """The loads of a step are one, under the name of its first request."""
        measured, self._measured = self._measured, {}
        return measured
