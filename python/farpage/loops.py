"""Event loops of asyncio: each hears of its tickets through one descriptor."""

from __future__ import annotations

import ctypes
import itertools
import sys
import weakref
from typing import TYPE_CHECKING, Any

from farpage._library import c, check

if TYPE_CHECKING:
    import asyncio

TAGS = 256


class Watch:
    """Whether an operation is done, as its loop has heard. Of the loop's thread alone."""

    __slots__ = ("futures", "is_done", "loop", "tag")

    def __init__(self, loop: Any, tag: int) -> None:
        self.loop, self.tag, self.is_done = loop, tag, False
        self.futures: list[asyncio.Future[None]] = []

    def future(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        future = loop.create_future()
        self.futures = [*(each for each in self.futures if not each.done()), future]  # or cancelled
        return future

    def end(self) -> None:
        self.is_done = True
        for future in self.futures:
            if not future.done():  # cancelled
                future.set_result(None)


class Completions:
    """The library's queue of tags for one loop; the loop's own reader keeps it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.handle = ctypes.c_void_p()  # before the call that makes it, and a signal behind that
        check(c.completions_new(ctypes.byref(self.handle)))
        self._loop = weakref.ref(loop)
        self._tags = itertools.count()
        self._watches: dict[int, Watch] = {}
        self._room, self._taken = (ctypes.c_uint64 * TAGS)(), ctypes.c_size_t()
        loop.add_reader(c.completions_fd(self.handle), self._take)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            c.completions_free(self.handle)

    def watch(self) -> Watch:
        watch = Watch(self._loop, next(self._tags))
        self._watches[watch.tag] = watch
        return watch

    def forget(self, watch: Watch) -> None:
        self._watches.pop(watch.tag, None)

    def _take(self) -> None:
        try:
            check(c.completions_take(self.handle, self._room, TAGS, ctypes.byref(self._taken)))
            self._end_watches()
        except BaseException:  # a signal came behind the call, which gives each tag once
            self._end_watches()
            raise

    def _end_watches(self) -> None:
        """Of the tags that were taken; of those that have ended already nothing more."""
        for tag in self._room[: self._taken.value]:
            watch = self._watches.get(tag)
            if watch is not None:
                watch.end()
                self._watches.pop(tag, None)


# Weak both ways: a watch's futures hold their loop, which would hold itself.
_LOOPS: weakref.WeakKeyDictionary[Any, weakref.ref[Completions]] = weakref.WeakKeyDictionary()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread. Who never imported asyncio has none."""
    # Another thread may import it now.
    get = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    loop: asyncio.AbstractEventLoop | None = None if get is None else get()
    return loop


def completions_here() -> Completions | None:
    """Those of the event loop that runs in this thread, if one does."""
    loop = running_loop()
    if loop is None:
        return None
    kept = _LOOPS.get(loop)
    found = None if kept is None else kept()
    if found is None:
        found = Completions(loop)
        _LOOPS[loop] = weakref.ref(found)
    return found
