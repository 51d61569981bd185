"""Jobs of an engine: loads and stores of several pages, which end in time whatever the nodes do."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

from farpage.engines.figures import Figures
from farpage.engines.guard import tell
from farpage.errors import Code, FarpageError
from farpage.ticket import Ticket
from farpage.verdicts import Reason, Verdict

READY, OK, TIMEOUT = int(Verdict.READY), int(Code.OK), int(Code.TIMEOUT)


@dataclasses.dataclass
class Job:
    number: int
    keys: list[bytes]
    is_load: bool
    length: int = 0  # in bytes
    timeout_s: float = 0.0  # from now on
    begin: Callable[[float], Ticket] | None = None  # by how many seconds from now; None: never
    begun_s: float = dataclasses.field(default_factory=time.monotonic)
    ticket: Ticket | None = None
    is_judged: bool = False
    done: list[bytes] = dataclasses.field(default_factory=list)  # keys, once it has ended
    took_s: float = 0.0  # until its last answer, once it has one

    @property
    def until_s(self) -> float:
        return self.begun_s + self.timeout_s

    @property
    def left_s(self) -> float:
        return max(0.0, self.until_s - time.monotonic())

    @property
    def done_bytes(self) -> int:
        return self.length * len(self.done) // max(1, len(self.keys))

    @property
    def is_whole(self) -> bool:
        return len(self.done) == len(self.keys)


class Transfers:
    """Loads begin at once, up to `load_bytes` under way. Stores begin while no load waits, up to
    `store_bytes`; of more than these that wait, the oldest are dropped, and so is one whose time is
    over. One thread uses it.

    `lost(keys)` hears of pages that did not load as soon as that is known. A job ends once nothing
    reads or writes its memory any more.
    """

    def __init__(self, *, load_bytes: int, store_bytes: int, lost: Callable[[list[bytes]], None], figures: Figures | None = None) -> None:
        self._figures = Figures() if figures is None else figures
        self._most = {True: load_bytes, False: store_bytes}  # by is_load
        self._under_way = {True: 0, False: 0}
        self._promised = 0
        self._lost = lost
        self._waiting: dict[bool, collections.deque[Job]] = {True: collections.deque(), False: collections.deque()}
        self._active: list[Job] = []
        self._ended: list[Job] = []

    @property
    def counts(self) -> collections.Counter[str]:
        """Pages, by their end."""
        return self._figures.of("pages")

    @property
    def is_idle(self) -> bool:
        return not (self._active or self._waiting[True] or self._waiting[False])

    def promise(self, length: int) -> bool:
        """Whether a load of so many bytes could begin now, beside those promised before: then room
        is kept for it until `end_promises()`."""
        taken = self._promised + self._under_way[True]
        if self._waiting[True]:
            taken += sum(job.length for job in self._waiting[True])
        if taken and taken + length > self._most[True]:
            return False
        self._promised += length
        return True

    def end_promises(self) -> None:
        """All that was promised is submitted, or never will be."""
        self._promised = 0

    def submit(self, job: Job) -> None:
        self._waiting[job.is_load].append(job)
        try:
            self._go_on()
        except Exception as error:  # `take_ended()` tries again, for the engine waits for the end
            tell(self, "submit", error)

    def refuse(self, job: Job) -> None:
        """It ends at once, and has not begun."""
        self._end(job, "refused" if job.is_load else "dropped")

    def take_ended(self) -> list[Job]:
        """Those that have ended since the last call. Does not block."""
        if self.is_idle and not self._ended:
            return []
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
        if self._waiting[True] or self._waiting[False]:
            self._end_overdue()
        stores = self._waiting[False]
        while stores and sum(job.length for job in stores) > self._most[False]:
            self._end(stores.popleft(), "dropped")

    def _end_overdue(self) -> None:
        now_s = time.monotonic()
        for is_load, waiting in self._waiting.items():
            for job in [each for each in waiting if each.until_s <= now_s]:
                waiting.remove(job)
                self._end(job, "overdue" if is_load else "dropped")

    def _has_room(self, job: Job) -> bool:
        under_way = self._under_way[job.is_load]
        return under_way == 0 or under_way + job.length <= self._most[job.is_load]

    def _begin(self, job: Job) -> None:
        assert job.begin is not None
        try:
            job.ticket = job.begin(job.left_s)
        except Exception as error:
            if not isinstance(error, FarpageError):  # of which the log tells already
                tell(self, "load" if job.is_load else "store", error)
            self.refuse(job)
            return
        self._under_way[job.is_load] += job.length
        self._active.append(job)

    def _look(self) -> None:
        active, self._active = self._active, []
        for job in active:
            if self._has_ended(job):
                self._under_way[job.is_load] -= job.length
                job.ticket = None
                self._ended.append(job)
            else:
                self._active.append(job)

    def _has_ended(self, job: Job) -> bool:
        assert job.ticket is not None
        try:
            if job.ticket.done and not job.is_judged:
                self._judge(job)
            return job.is_judged and job.ticket.released
        except Exception as error:  # of one job: the others go on
            tell(self, "end", error)
            return False

    def _judge(self, job: Job) -> None:
        assert job.ticket is not None
        job.is_judged = True
        try:
            self._take(job, job.ticket.result())
        except Exception as error:
            tell(self, "load" if job.is_load else "store", error)
            job.done = []
            self._figures.add("pages", "refused" if job.is_load else "not stored", len(job.keys))
            if job.is_load:
                self._lost(job.keys)

    def _take(self, job: Job, result: Any) -> None:
        # For so few numbers lists cost less than arrays.
        ends, well = (result["verdict"].tolist(), READY) if job.is_load else (result["code"].tolist(), OK)
        job.done = [key for key, end in zip(job.keys, ends) if end == well]
        # Of a load the client says it; of a store it is known when it is looked at.
        job.took_s = max(result["took_ns"].tolist(), default=0) / 1e9 if job.is_load else time.monotonic() - job.begun_s
        if job.is_load:
            reasons: collections.Counter[str] = collections.Counter()
            if not job.is_whole:
                reasons.update(Reason(reason).name.lower() for reason, end in zip(result["reason"].tolist(), ends) if end != well)
            self._count("load", "ready", job, reasons, reasons["stalled"] + reasons["unreachable"])
            if reasons:
                kept = set(job.done)
                self._lost([key for key in job.keys if key not in kept])
        else:
            failed = len(job.keys) - len(job.done)
            self._count("store", "stored", job, {"not stored": failed}, ends.count(TIMEOUT))

    def _count(self, operation: str, well: str, job: Job, losses: Mapping[str, int], late: int) -> None:
        for how, pages in ((well, len(job.done)), *losses.items()):
            if pages:
                self._figures.add("pages", how, pages)
        self._figures.add("bytes", operation, job.done_bytes)
        self._figures.add("seconds", operation, job.took_s)
        if late:
            self._figures.add("stalls", operation)

    def _end(self, job: Job, how: str) -> None:
        """It has not begun, and does not."""
        self._ended.append(job)
        self._figures.add("pages", how, len(job.keys))
        if how == "overdue":
            self._figures.add("stalls", "load")
        if job.is_load:
            self._lost(job.keys)
