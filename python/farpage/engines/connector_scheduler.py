"""The connector in vLLM's scheduler: which blocks of a request are there, and what the workers load
and store in each step."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy

import farpage
from farpage.engines.connection import Connection
from farpage.engines.connector_plan import Blocks, Load, Plan, Settings, Shard, together
from farpage.engines.figures import Figures
from farpage.engines.guard import tell
from farpage.engines.lookups import is_any_late
from farpage.engines.namespaces import Epoch
from farpage.engines.worth import Worth

MOST_KEYS = 1 << 16  # in one question
NO_NAME = b""  # of no block: a page of that name is never there
NEVER = 1 << 62  # more blocks than any request has


@dataclasses.dataclass
class _Request:
    request: Any  # vLLM's
    ticket: farpage.Ticket | None = None  # of the question which blocks are there
    until_s: float = 0.0
    found: int = 0  # leading blocks that are there, once there is no ticket
    limit: int = NEVER  # the first block that could not be loaded
    preemptions: int = 0  # when the question was asked
    is_weighed: bool = False  # whether to load what was found
    slower: int = 0  # leading blocks that are there, and were cheaper to compute
    # When vLLM began to compute its prompt, and the tokens that there were before.
    prefill: tuple[float, int] | None = None
    first: int | None = None  # the first block to load, until vLLM has allocated them
    loading: Blocks | None = None
    loading_from: int = 0  # the first block of `loading`
    stored: int = 0  # leading blocks that need not be stored
    may_store: bool = True
    is_announced: bool = False


class SchedulerSide:
    """vLLM's scheduler calls it from one thread. Nothing here waits.

    A request's blocks are asked for in one batch when it arrives, and the answer is there, or
    counts as none, after `timeout_ms`. A request meets no block twice that could not be loaded.
    Blocks are stored in the step after vLLM has taken what a step computed, so that nothing
    computed from a load that failed is ever stored.
    """

    def __init__(self, settings: Settings, block_tokens: int, figures: Figures, *, loads: bool, stores: bool, loads_ahead: bool) -> None:
        self._settings, self._block_tokens, self._figures = settings, block_tokens, figures
        self._stores_blocks, self._loads_ahead = stores, loads_ahead
        self._shards: list[Shard] = []  # of each worker; none until they have said
        self._epoch = Epoch()
        self._requests: dict[str, _Request] = {}
        self._untimed: dict[str, _Request] = {}  # whose prefill is not over, and may be timed
        self._matched: list[_Request] = []  # in this step
        self._next = Plan()
        self._worth = Worth(figures, is_on=settings.cost_model, tokens_per_s=settings.prefill_tokens_per_s)
        self._measured: dict[str, Load] = {}  # by request, of the workers that have told so far
        client = dict(settings.client)
        if "config" not in client:
            # It asks alone: the workers' clients load and store, and fetch ahead what they load.
            client.pop("ahead", None)
            client["staging_bytes"] = 0
        self._connection = Connection(client, lambda _: None) if loads else None

    def set_shards(self, shards: Iterable[Shard]) -> None:
        self._shards = list(shards)
        # Answers about other shards say nothing of these.
        for known in self._requests.values():
            known.ticket, known.found = None, 0

    @property
    def _parts(self) -> int:
        """Pages of a block, in all workers."""
        return sum(shard.parts for shard in self._shards)

    # ---- Lookups

    def begin(self, request: Any) -> None:
        """A request has come, or comes back: asks for its blocks."""
        known = self._requests.get(request.request_id)
        if known is None or known.request is not request:
            known = self._requests[request.request_id] = self._untimed[request.request_id] = _Request(request)
        known.preemptions = request.num_preemptions
        known.found, known.ticket, known.is_weighed, known.slower, known.prefill = 0, None, False, 0, None
        client = self._connection.client if self._connection is not None else None
        # One token at least is computed.
        most = MOST_KEYS // max(1, self._parts)
        count = min((request.num_tokens - 1) // self._block_tokens, len(request.block_hashes), known.limit, most)
        if client is None or not self._shards or count <= 0:
            return
        names = self._names(request, 0, count)
        try:
            keys = numpy.concatenate([shard.keys(names) for shard in self._shards], axis=1)
            known.ticket = client.exists(keys.reshape(-1, keys.shape[-1]), timeout_s=self._settings.timeout_s)
        except Exception as error:
            if not isinstance(error, farpage.FarpageError):  # of which the log tells already
                tell(self, "lookup", error)
            return
        known.until_s = time.monotonic() + self._settings.timeout_s

    def matched(self, request: Any, computed_tokens: int) -> int | None:
        """How many tokens more than these can be loaded; None: not known yet."""
        known = self._requests.get(request.request_id)
        if known is None or known.request is not request or known.preemptions != request.num_preemptions:
            self.begin(request)
            known = self._requests[request.request_id]
        if not self._is_answered(known):
            return None
        known.first = computed_tokens // self._block_tokens
        self._matched.append(known)
        self._weigh(known, known.found - known.first)
        return max(0, known.found - known.first) * self._block_tokens

    def _weigh(self, known: _Request, blocks: int) -> None:
        """Decides once a question, and takes nothing as found where computing is cheaper."""
        if blocks <= 0 or known.is_weighed:
            return
        known.is_weighed = True
        tokens = blocks * self._block_tokens
        if not self._worth.is_worth(tokens, tokens):  # each token has as many bytes
            self._figures.add("pages", "slower", blocks * len(self._shards))
            known.slower, known.found = known.found, 0

    def _is_answered(self, known: _Request) -> bool:
        ticket = known.ticket
        if ticket is None:
            return True
        if ticket.done:
            try:
                result = ticket.result()
                there = (result["verdict"] == farpage.Verdict.READY).reshape(-1, self._parts).all(axis=1)
                known.found = min(known.limit, len(there) if there.all() else int(there.argmin()))
                self._figures.add("seconds", "lookup", float(result["took_ns"].max(initial=0)) / 1e9)
                self._figures.add("stalls", "lookup", is_any_late(result["reason"].tolist()))
            except Exception as error:
                tell(self, "lookup", error)
        elif time.monotonic() < known.until_s:
            return False
        known.ticket = None
        return True

    def _names(self, request: Any, begin: int, end: int) -> list[bytes]:
        return self._epoch.names(request.block_hashes[begin:end])

    # ---- Loads

    def allocated(self, request: Any, numbers: list[int], external_tokens: int) -> None:
        """vLLM has blocks for the request, whose tokens that `matched()` found are to be loaded."""
        known = self._requests.get(request.request_id)
        if known is None or known.first is None:
            return
        first, known.first = known.first, None
        end = first + external_tokens // self._block_tokens
        known.stored = end
        if end > first:
            known.loading, known.loading_from = Blocks(request.request_id, self._names_to_load(request, first, end), numbers[first:end]), first
            self._next.loads.append(known.loading)

    def _names_to_load(self, request: Any, first: int, end: int) -> list[bytes]:
        try:
            return self._names(request, first, end)
        except Exception as error:  # vLLM waits for the load, and computes what then fails
            tell(self, "load", error)
            return [NO_NAME] * (end - first)

    def ended(self, loaded: Collection[str], failed: set[int], measured: Mapping[str, Load]) -> None:
        """Of a step, requests whose loads have ended, blocks that did not come, and what workers
        have measured."""
        if failed:
            for known in self._requests.values():
                lost = [place for place, number in enumerate(known.loading.numbers) if number in failed] if known.loading is not None else []
                if lost:
                    known.limit = min(known.limit, known.loading_from + lost[0])
                    known.found = min(known.found, known.limit)
        for name in loaded:
            if name in self._requests:
                self._requests[name].loading = None
        self._measured = together(self._measured, measured)
        # Layers end in all workers within a step.
        for name in loaded if self._loads_ahead else list(self._measured):
            load = self._measured.pop(name, None)
            if load is not None:
                tokens = load.blocks * self._block_tokens
                self._worth.loaded(tokens, tokens, load.took_s)

    # ---- Stores

    def plan(self, scheduled: Collection[str], numbers_of: Callable[[str], list[int]]) -> Plan:
        """What the workers do in this step, in which these requests compute."""
        plan, self._next = self._next, Plan()
        matched, self._matched = self._matched, []
        try:
            self._plan_stores(plan, scheduled, numbers_of)
            self._plan_announcements(plan, matched)
            self._time_prefills(scheduled, may_begin=self._loads_ahead or not plan.loads)
        except Exception as error:  # its loads go to the workers all the same: vLLM waits for them
            tell(self, "plan", error)
        return plan

    def _plan_stores(self, plan: Plan, scheduled: Iterable[str], numbers_of: Callable[[str], list[int]]) -> None:
        for name in scheduled if self._stores_blocks else ():
            known = self._requests.get(name)
            blocks = self._computed(known, numbers_of) if known is not None else None
            if blocks is not None:
                plan.stores.append(blocks)

    def _time_prefills(self, scheduled: Collection[str], *, may_begin: bool) -> None:
        """What begins in a step that waits for layers is not timed."""
        for name in self._untimed.keys() & scheduled:
            known = self._untimed[name]
            if known.prefill is not None:
                self._end_prefill(known)
            elif may_begin:
                known.prefill = time.monotonic(), self._taken(known.request)
            else:
                del self._untimed[name]

    def _end_prefill(self, known: _Request) -> None:
        taken = self._taken(known.request)
        if known.prefill is None or taken < known.request.num_prompt_tokens:
            return
        begun_s, before = known.prefill
        del self._untimed[known.request.request_id]
        self._worth.prefilled(taken - before, time.monotonic() - begun_s)

    def _plan_announcements(self, plan: Plan, matched: Iterable[_Request]) -> None:
        for known in matched:
            if known.first is not None and not known.is_announced:  # vLLM has no blocks for it yet
                known.is_announced = True
                plan.announced += self._names(known.request, known.first, known.found)

    def finished(self, request: Any, numbers: list[int]) -> bool:
        """Whether vLLM must keep the request's blocks until the workers have read them."""
        known = self._requests.pop(request.request_id, None)
        if known is not None and request.request_id in self._untimed:
            self._end_prefill(known)
            self._untimed.pop(request.request_id, None)
        if known is None or not self._stores_blocks or (self._loads_ahead and known.loading is not None):
            return False
        blocks = self._computed(known, lambda _: numbers)
        if blocks is None:
            return False
        self._next.stores.append(blocks)
        self._next.ending.add(request.request_id)
        return True

    def _taken(self, request: Any) -> int:
        """The tokens whose KV vLLM has, and has heard of."""
        return max(0, int(request.num_computed_tokens - request.num_in_flight_tokens))

    def _computed(self, known: _Request, numbers_of: Callable[[str], list[int]]) -> Blocks | None:
        """The whole blocks that vLLM has taken, and that are not stored."""
        request = known.request
        if not known.may_store:
            return None
        taken = self._taken(request) // self._block_tokens
        known.stored = min(known.stored, taken)
        begin, end = max(known.stored, known.slower), min(taken, len(request.block_hashes))
        if end <= begin:
            return None
        known.stored = end
        numbers = numbers_of(request.request_id)[begin:end]
        return Blocks(request.request_id, self._names(request, begin, begin + len(numbers)), numbers)

    # ---- The rest

    def reset(self) -> None:
        """No page of before is found any more, by this engine: its weights may be others now."""
        self._epoch.begin()
        for known in self._requests.values():
            known.ticket, known.found, known.limit, known.may_store = None, 0, 0, False

    def close(self) -> None:
        self._requests.clear()
        self._untimed.clear()
        if self._connection is not None:
            self._connection.close()
