"""What streams of a GPU wait at for the verdicts of a fetch."""

from __future__ import annotations

import ctypes
import operator
from typing import Any, Callable

from farpage._library import Notification, c, check
from farpage.errors import InvalidError
from farpage.loops import Completions, Watch
from farpage.streams import stream_of
from farpage.ticket import Ticket

_MOST = (1 << 32) - 1


class Fence:
    """Work on a GPU waits at it until each page of a fetch has its verdict, and finds there which
    pages are ready: `Client.fence()` makes it, and `Client.fetch(..., fence=)` uses it. Any thread.

    One fetch at a time has it. It may outlive the client, and then says that no page is ready.
    Close it, or let go of it, once no stream waits at it and no work and no graph will read it.
    """

    __slots__ = ("_as_parameter_", "_is_told", "pages")

    def __init__(self, client: Any, device: int, pages: int) -> None:
        self._as_parameter_ = ctypes.c_void_p()  # null until it is there
        self._is_told = False  # by the library, of the fetch that begins
        numbers = []
        for name, value in (("device", device), ("pages", pages)):
            try:
                numbers.append(operator.index(value))
            except TypeError:
                raise InvalidError(f"{name} is no whole number: {value!r}") from None
        if not 0 <= numbers[0] < 1 << 31 or not 0 < numbers[1] <= _MOST:
            raise InvalidError(f"there is no fence for {pages} pages on cuda:{device}")
        check(c.fence_new(client, *numbers, ctypes.byref(self._as_parameter_)))
        self.pages = numbers[1]

    def wait(self, stream: Any) -> None:
        """Puts a wait on a stream of the GPU: work that is put there from now on waits until each
        fetch that was begun with the fence has its verdicts. Nothing blocks. In a stream that is
        captured each replay of the graph waits for the fetches that were begun before it.

        `stream`: of torch or CuPy, what has `__cuda_stream__()`, or a CUstream as a number; 0 is
        the default one. UnavailableError: the driver refuses it. InvalidError: it is captured, and
        the library has no kernels."""
        check(c.fence_wait(self, stream_of(stream)))

    def clear(self) -> None:
        """No page is ready from now on: for a graph that is replayed without a fetch. BusyError: a
        fetch with the fence is under way."""
        check(c.fence_clear(self))

    @property
    def address(self) -> int:
        """Where kernels find `farpage_fence_words_t` (farpage/fence.h): 64 bytes, and then a bit
        for each page that is ready, in words of 32."""
        return int(c.fence_address(self))

    def close(self) -> None:
        handle, self._as_parameter_ = self._as_parameter_, ctypes.c_void_p()
        c.fence_free(handle)

    def __enter__(self) -> Fence:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_as_parameter_", None) is not None:
            self.close()


def fetch_with(fence: Any, stream: Any, begin: Callable[[], Ticket]) -> Ticket:
    """A fetch for which the fence, and then the stream, wait."""
    if not isinstance(fence, Fence):
        raise InvalidError(f"{fence!r} is no fence: Client.fence() makes one")
    if not fence._as_parameter_:
        raise InvalidError("the fence is closed: make another")
    fence._is_told = False
    try:
        handle = None if stream is None else stream_of(stream)
        ticket = begin()
    except BaseException:
        if not fence._is_told:
            c.fence_clear(fence)
        raise
    if handle is not None:
        try:
            fence.wait(handle)
        except BaseException:  # without a wait nothing may take its pages
            ticket.wait_released()
            c.fence_clear(fence)
            raise
    return ticket


def notification_of(completions: Completions | None, watch: Watch | None, fence: Fence | None) -> Notification:
    if fence is not None:
        fence._is_told = True
    queue, tag = (None, 0) if completions is None or watch is None else (completions.handle, watch.tag)
    return Notification(ctypes.sizeof(Notification), queue, tag, None, None, None if fence is None else fence._as_parameter_)
