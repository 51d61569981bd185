"""Tickets: operations that were submitted, and what became of their pages."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Callable, Optional

import numpy

from farpage._library import BUSY, FOREVER_US, OK, TIMEOUT, c, check
from farpage.errors import FarpageTimeoutError, InvalidError, error_of
from farpage.loops import Watch, running_loop

if TYPE_CHECKING:
    from farpage.buffers import Region
    from farpage.client import Client

# farpage_page_verdict_t and farpage_put_result_t, without what they reserve.
VERDICT = numpy.dtype({"names": ["verdict", "reason", "version", "took_ns", "held"], "formats": ["u4", "u4", "u8", "u8", "?"],
                       "offsets": [0, 4, 8, 16, 24], "itemsize": 40})
PUT_RESULT = numpy.dtype({"names": ["code", "version"], "formats": ["u4", "u8"], "offsets": [0, 8], "itemsize": 24})
# A wait inside the library does not see signals: between slices Python does.
SLICE_US = 20_000
POLL_S = 0.005  # between looks at an operation whose end no event loop hears of


def microseconds(time_s: float | None, what: str = "a timeout") -> int:
    if time_s is None:
        return FOREVER_US
    try:
        is_time, is_long = bool(time_s >= 0), bool(time_s >= 1e13)
        time_us = int(time_s * 1e6) if is_time and not is_long else FOREVER_US
    except (TypeError, ValueError):
        raise InvalidError(f"{what} is {time_s!r}: give a number of seconds, or None for none") from None
    if not is_time:
        raise InvalidError(f"{what} of {time_s} s: give 0 or more, or None for none")
    return time_us


class Operation:
    """The library's ticket, and the memory that is lent to it: it goes when nobody needs it any
    more.

    It is there before the call that begins it, and before its memory is registered, so that no
    signal comes between them. The client keeps it until it is released, so that no memory goes
    before that.
    """

    __slots__ = ("_as_parameter_", "client", "handle", "is_write", "lent")

    def __init__(self, client: Client, *, is_write: bool) -> None:
        self.handle = self._as_parameter_ = ctypes.c_void_p()  # null until it has begun
        self.lent: list[Region] = []
        self.is_write = is_write  # a put or a remove
        self.client = client

    @property
    def has_begun(self) -> bool:
        return self.handle.value is not None

    def end_lending(self) -> None:
        """Its memory is not needed any more."""
        self.client._regions.end(self.lent)

    def __del__(self) -> None:
        if hasattr(self, "client") and self.client._is_ours():
            try:
                c.ticket_free(self)
            finally:
                # The collector may take it before the client, which would wait for it.
                self.handle.value = None
                self.client._end(id(self))
                self.end_lending()


def wait_done(operation: Operation, timeout_us: int) -> bool:
    return _wait(c.ticket_wait, operation, timeout_us)


def wait_released(operation: Operation, timeout_us: int) -> bool:
    return _wait(c.ticket_wait_released, operation, timeout_us)


def _wait(call: Callable[[Any, int], int], operation: Operation, timeout_us: int) -> bool:
    if timeout_us <= SLICE_US:
        code = call(operation, timeout_us)
    else:
        until = time.monotonic() + timeout_us / 1e6
        code = call(operation, SLICE_US)
        while code == TIMEOUT:
            left_us = int((until - time.monotonic()) * 1e6)
            if left_us <= 0:
                break
            code = call(operation, min(left_us, SLICE_US))
    if code not in (OK, TIMEOUT):
        check(code)
    return code == OK


class Ticket:
    """An operation that goes on by itself, and has a verdict or a result for each page in time.

        verdicts = client.fetch(keys, memory).wait()    # blocks, without the GIL
        verdicts = await client.fetch(keys, memory)     # in an event loop

    It is *done* when each page has its answer, and *released* when nothing reads or writes the
    pages' memory for it any more: mostly at the same time, at the latest some seconds after its
    timeout. Until then the client keeps the memory alive, also if the ticket is dropped. Any thread
    may use it.
    """

    __slots__ = ("__weakref__", "_answer", "_operation", "_watch")

    def __init__(self, operation: Operation, answer: Callable[[Operation], Any], watch: Optional[Watch]) -> None:
        self._operation, self._answer, self._watch = operation, answer, watch

    def __del__(self) -> None:
        if hasattr(self, "_operation"):
            self._operation.client._let_go(self._operation)

    @property
    def done(self) -> bool:
        """Whether every page has its answer. Does not block."""
        return self._says(c.ticket_done)

    @property
    def released(self) -> bool:
        """Whether the operation touches no memory any more. Does not block."""
        return self._says(c.ticket_released)

    def _says(self, question: Callable[[Operation], int]) -> bool:
        answer = question(self._operation)
        if answer < 0:
            raise InvalidError(c.last_error().decode("utf-8", "replace"))
        return answer == 1

    def wait(self, timeout_s: float | None = None) -> Any:
        """Blocks until it is done, and returns `result()`. FarpageTimeoutError: `timeout_s` seconds
        were over first, and the operation goes on. None: as long as the operation takes by its own
        timeout."""
        if not wait_done(self._operation, microseconds(timeout_s)):
            raise FarpageTimeoutError("the operation goes on: wait for it again")
        return self.result()

    def wait_released(self, timeout_s: float | None = None) -> None:
        """Blocks until it is released: then the memory may be written or freed. FarpageTimeoutError
        as above."""
        if not wait_released(self._operation, microseconds(timeout_s)):
            raise FarpageTimeoutError("the operation still uses its memory: wait for it again")

    def result(self) -> Any:
        """What became of the pages, in their order. BusyError: it is not done.

        Of `fetch` and `exists` an array of VERDICT, the shape (pages,): `verdict` (Verdict),
        `reason` (Reason) unless it is ready, `version` if it is, `took_ns` nanoseconds since the
        fetch began, `held`: the page's memory may still be written, until the ticket is released.
        Of `put` an array of PUT_RESULT: `code` (Code) and `version`. Of `remove` the number of keys
        that had a page; not acknowledged is FarpageTimeoutError or UnavailableError.
        """
        self._operation.client._refuse_fork()
        return self._answer(self._operation)

    def why(self) -> str:
        """Of a put or a remove that was not acknowledged: a sentence; "" if none, or not done."""
        self._operation.client._refuse_fork()
        with self._operation.client._answers:
            text: bytes = c.ticket_why(self._operation)
            return text.decode("utf-8", "replace")

    def __await__(self) -> Generator[Any, None, Any]:
        self._operation.client._refuse_fork()
        loop = running_loop()
        if loop is None:
            raise InvalidError("no event loop of asyncio runs in this thread: use wait()")
        if self._watch is not None and self._watch.loop() is loop:
            if not self._watch.is_done:
                yield from self._watch.future(loop)
        else:  # submitted elsewhere; a thread that waits would keep the loop from ending
            import asyncio

            while not self.done:
                yield from asyncio.sleep(POLL_S).__await__()
        return self.result()


@functools.lru_cache(maxsize=64)
def _bytes_at(count: int) -> Callable[[Any], Any]:
    return (ctypes.c_char * count).from_address


def _copied(call: Any, operation: Operation, dtype: Any) -> Any:
    place, count = ctypes.c_void_p(), ctypes.c_size_t()
    with operation.client._answers:
        check(call(operation, ctypes.byref(place), ctypes.byref(count)))
        if not count.value:
            return numpy.empty(0, dtype)
        copied = bytearray(_bytes_at(count.value * dtype.itemsize)(place.value))
    return numpy.frombuffer(copied, dtype)


def verdicts(operation: Operation) -> Any:
    return _copied(c.ticket_verdicts, operation, VERDICT)


def put_results(operation: Operation) -> Any:
    return _copied(c.ticket_results, operation, PUT_RESULT)


def removed(operation: Operation) -> int:
    count = ctypes.c_uint64()
    code = c.ticket_removed(operation, ctypes.byref(count))
    if code not in (OK, BUSY):
        with operation.client._answers:
            why = c.ticket_why(operation) or c.last_error()
            raise error_of(code, why.decode("utf-8", "replace"))
    check(code)
    return count.value
