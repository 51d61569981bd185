"""A thread with an event loop, on which operations of an engine live."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

Work = Callable[[], Coroutine[Any, Any, None]]


class LoopThread:
    """Operations are coroutines that await tickets: the loop hears of all their ends through one
    descriptor, and none of them waits for another."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()  # of which a loop itself keeps none
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> bool:
        """Begins an operation; any thread may call it. False: closed, or in the child of a fork."""
        if self._pid != os.getpid():
            return False
        with self._lock:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(self.begin, work)
            return not self._is_closed

    def begin(self, work: Work) -> Awaitable[None]:
        """The same from an operation."""
        task = self._loop.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Blocks until every operation has ended. In the child of a fork: nothing."""
        if self._pid != os.getpid():
            return
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
        if is_first:
            self._loop.call_soon_threadsafe(self._stop_when_idle)
        self._thread.join()
        self._loop.close()

    def _stop_when_idle(self, *_: object) -> None:
        if self._tasks:
            next(iter(self._tasks)).add_done_callback(self._stop_when_idle)
        else:
            self._loop.stop()
