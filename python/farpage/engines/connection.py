"""A client that may come later: engines start without a node, and use one as soon as it is
there."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import farpage

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
CONNECT_MS = 2000  # unless the settings say it, as of farpage.open()
SLACK_S = 1.0  # from the end of that time to the end of farpage.open()
_log = logging.getLogger("farpage")


class Connection:
    """Opens a client on a thread of its own, again and again until a node takes it.

    `prepare(client)` runs on that thread before anyone sees the client: it registers the engine's
    memory. Settings that no node can mend end it: `why_not` is then a sentence for good. Nodes show
    the facts of `space` beside the number of its pages.
    """

    def __init__(self, settings: Mapping[str, Any], prepare: Callable[[farpage.Client], object],
                 space: farpage.KeySpace | None = None) -> None:
        self.client: farpage.Client | None = None  # None: no node has answered yet
        self.why_not = "no node has answered yet"
        self._settings, self._prepare, self._space, self._pid = dict(settings), prepare, space, os.getpid()
        self._is_ending, self._has_tried = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._open, name="farpage-open", daemon=True)
        self._thread.start()
        atexit.register(self._exit)

    def wait_first(self, timeout_s: float) -> None:
        """Blocks until the first attempt has ended, for engines that need not start at once."""
        self._has_tried.wait(timeout_s)

    def _open(self) -> None:
        try:
            self._try()
        finally:
            self._has_tried.set()

    def _try(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._is_ending.is_set():
            try:
                self.client = self._opened()
            # Exhausted: the node has as many clients as it can serve, and some of them may go.
            except (farpage.UnavailableError, farpage.FarpageTimeoutError, farpage.ExhaustedError) as error:
                end = "" if str(error).endswith(("?", ".")) else "."
                self._tell(logging.WARNING, f"{error}{end} docs/engines.md says which --page-bytes the engine's pages need. Farpage tries again every {FIRST_PAUSE_S} to "
                                            f"{LONGEST_PAUSE_S:g} s; until a node answers, every page is a miss")
                self._has_tried.set()
                self._is_ending.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            except Exception as error:  # an engine's thread never sees it
                self._tell(logging.ERROR, f"{error}; every page is a miss until this is mended and the engine starts again")
                return
            # As loud as what was said before.
            level = logging.INFO if pause_s == FIRST_PAUSE_S else logging.WARNING
            self._tell(level, f"a node has answered: its pages are of up to {self.client.page_bytes} bytes")
            return

    def _opened(self) -> farpage.Client:
        if "facts" in self._settings:
            raise farpage.InvalidError("the engine says what its pages depend on: leave out \"facts\", and give a \"salt\" to tell pages apart")
        client = farpage.open(facts=self._space, **self._settings)
        try:
            self._prepare(client)
        except BaseException:
            client.close()
            raise
        return client

    def _tell(self, level: int, sentence: str) -> None:
        if sentence != self.why_not:
            _log.log(level, "farpage: %s", sentence)
        self.why_not = sentence

    def close(self) -> None:
        """Ends the client, which waits until no operation touches the engine's memory. In the child
        of a fork: nothing."""
        atexit.unregister(self._exit)
        if self._pid != os.getpid():
            return
        self._is_ending.set()
        self._thread.join()
        client, self.client = self.client, None
        if client is not None:
            client.close()

    def _exit(self) -> None:
        """An engine that exits without a word: each operation has its deadline, and the client's
        threads are to end before the libraries that they use. One that is being opened is waited
        for as long as its node may take."""
        if self._pid != os.getpid():
            return
        self._is_ending.set()
        self._thread.join(self._connect_s())
        if not self._thread.is_alive():
            self.close()

    def _connect_s(self) -> float:
        value = self._settings.get("connect_ms")
        return (value if isinstance(value, (int, float)) else CONNECT_MS) / 1000 + SLACK_S
