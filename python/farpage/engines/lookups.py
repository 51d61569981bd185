"""Which pages are there: asked by the batch, and never waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Optional

from farpage.errors import FarpageError
from farpage.ticket import Ticket
from farpage.verdicts import Verdict

Ask = Callable[[list[bytes]], Optional[Ticket]]


class Lookups:
    """What each request of an engine knows of its keys. One thread uses it.

    `find()` says None until an answer is there. Keys that were asked for since go to the node
    together, with `ask()`. The ticket's deadline ends a question: then its keys are not there. A
    request keeps its answers until `forget()`, so that it meets no page twice that could not be
    loaded; another request asks anew.
    """

    def __init__(self, begin: Ask) -> None:
        self._begin = begin  # None: no node can be asked, and no page is there
        self._answers: dict[str, dict[bytes, bool | None]] = {}
        self._new: list[tuple[str, bytes]] = []
        self._asked: list[tuple[Ticket, list[tuple[str, bytes]]]] = []

    def find(self, key: bytes, request: str) -> bool | None:
        answers = self._answers.setdefault(request, {})
        if key not in answers:
            answers[key] = None
            self._new.append((request, key))
        return answers[key]

    def ask(self) -> None:
        """Sends what was asked for since, and takes the answers that are there."""
        new, self._new = self._new, []
        if new:
            try:
                ticket = self._begin([key for _, key in new])
            except FarpageError:
                ticket = None
            if ticket is None:
                self._settle(new, [False] * len(new))
            else:
                self._asked.append((ticket, new))
        self.take()

    def take(self) -> None:
        """Takes the answers that are there."""
        waiting = []
        for ticket, asked in self._asked:
            if ticket.done:
                self._settle(asked, (ticket.result()["verdict"] == Verdict.READY).tolist())
            else:
                waiting.append((ticket, asked))
        self._asked = waiting

    def _settle(self, asked: list[tuple[str, bytes]], found: Iterable[bool]) -> None:
        for (request, key), is_there in zip(asked, found):
            answers = self._answers.get(request, {})
            if answers.get(key, False) is None:
                answers[key] = is_there

    def lose(self, keys: Iterable[bytes]) -> None:
        """These could not be loaded: for the requests of now they are not there."""
        lost = set(keys)
        for answers in self._answers.values():
            for key in lost & answers.keys():
                answers[key] = False

    def forget(self, request: str) -> None:
        self._answers.pop(request, None)

    @property
    def is_waiting(self) -> bool:
        return bool(self._new or self._asked)
