"""Jobs of an engine: loads and stores of several pages, which end in time whatever the nodes do."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy

from farpage.errors import Code, FarpageError
from farpage.ticket import Ticket
from farpage.verdicts import Reason, Verdict


@dataclasses.dataclass
class Job:
    number: int
    keys: list[bytes]
    is_load: bool
    length: int  # in bytes
    begin: Callable[[float], Ticket]  # by how many seconds from now
    begun_s: float = dataclasses.field(default_factory=time.monotonic)
    ticket: Ticket | None = None
    is_judged: bool = False
    done: list[bytes] = dataclasses.field(default_factory=list)  # keys, once it has ended

    @property
    def is_whole(self) -> bool:
        return len(self.done) == len(self.keys)


class Transfers:
    """Loads begin at once, up to `load_bytes` under way. Stores begin while no load waits, up to
    `store_bytes`; of more than these that wait, the oldest are dropped. One thread uses it.

    `lost(keys)` hears of pages that did not load as soon as that is known. A job ends once nothing
    reads or writes its memory any more.
    """

    def __init__(self, *, load_s: float, store_s: float, load_bytes: int, store_bytes: int, lost: Callable[[list[bytes]], None]) -> None:
        self._load_s, self._store_s = load_s, store_s
        self._most = {True: load_bytes, False: store_bytes}  # by is_load
        self._under_way = {True: 0, False: 0}
        self._lost = lost
        self._waiting: dict[bool, collections.deque[Job]] = {True: collections.deque(), False: collections.deque()}
        self._active: list[Job] = []
        self._ended: list[Job] = []
        self.counts: collections.Counter[str] = collections.Counter()  # pages, by their end

    @property
    def is_idle(self) -> bool:
        return not (self._active or self._waiting[True] or self._waiting[False])

    def submit(self, job: Job) -> None:
        self._waiting[job.is_load].append(job)
        self._go_on()

    def take_ended(self) -> list[Job]:
        """Those that have ended since the last call. Does not block."""
        self._look()
        self._go_on()
        ended, self._ended = self._ended, []
        return ended

    def drain(self) -> None:
        """Blocks until each job has ended, which is by its deadline; `take_ended()` has them."""
        while not self.is_idle:
            for job in self._active:
                if job.ticket is not None:
                    job.ticket.wait_released()
            self._look()
            self._go_on()

    def _go_on(self) -> None:
        for is_load in (True, False):
            waiting = self._waiting[is_load]
            while waiting and (is_load or not self._waiting[True]) and self._has_room(waiting[0]):
                self._begin(waiting.popleft())
        now = time.monotonic()
        loads, stores = self._waiting[True], self._waiting[False]
        while loads and now >= loads[0].begun_s + self._load_s:
            self._end(loads.popleft(), "overdue")
        while stores and sum(job.length for job in stores) > self._most[False]:
            self._end(stores.popleft(), "dropped")

    def _has_room(self, job: Job) -> bool:
        under_way = self._under_way[job.is_load]
        return under_way == 0 or under_way + job.length <= self._most[job.is_load]

    def _begin(self, job: Job) -> None:
        left_s = (self._load_s if job.is_load else self._store_s) - (time.monotonic() - job.begun_s)
        try:
            job.ticket = job.begin(max(0.0, left_s))
        except FarpageError:
            self._end(job, "refused" if job.is_load else "dropped")
            return
        self._under_way[job.is_load] += job.length
        self._active.append(job)

    def _look(self) -> None:
        active, self._active = self._active, []
        for job in active:
            assert job.ticket is not None
            if job.ticket.done and not job.is_judged:
                self._judge(job)
            if job.is_judged and job.ticket.released:
                self._under_way[job.is_load] -= job.length
                job.ticket = None
                self._ended.append(job)
            else:
                self._active.append(job)

    def _judge(self, job: Job) -> None:
        assert job.ticket is not None
        job.is_judged = True
        result = job.ticket.result()
        if job.is_load:
            good = result["verdict"] == Verdict.READY
            self.counts["ready"] += int(good.sum())
            for reason in result["reason"][~good].tolist():
                self.counts[Reason(reason).name.lower()] += 1
        else:
            good = result["code"] == Code.OK
            self.counts["stored"] += int(good.sum())
            self.counts["not stored"] += int((~good).sum())
        job.done = [job.keys[place] for place in numpy.flatnonzero(good)]
        if job.is_load and not job.is_whole:
            kept = set(job.done)
            self._lost([key for key in job.keys if key not in kept])

    def _end(self, job: Job, how: str) -> None:
        """It has not begun, and does not."""
        self.counts[how] += len(job.keys)
        if job.is_load:
            self._lost(job.keys)
        self._ended.append(job)
