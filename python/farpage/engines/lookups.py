"""Which pages are there: asked by the batch, and never waited for."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional

from farpage.engines.figures import Figures
from farpage.engines.guard import tell
from farpage.errors import FarpageError
from farpage.ticket import Ticket
from farpage.verdicts import Reason, Verdict

Name = Callable[[list[bytes]], Any]  # the pages' keys, by the engine's own
Ask = Callable[[Any], Optional[Ticket]]  # by the pages' keys
# Of a request's keys, in the order in which they were asked for, and whether each is there: which
# of them the engine may load, given the seconds it has for that.
Choose = Callable[[list[bytes], list[bool], float], list[bool]]
_UNASKED = object()
READY, LATE = int(Verdict.READY), {int(Reason.STALLED), int(Reason.UNREACHABLE)}


def is_any_late(reasons: list[int]) -> bool:
    """Whether one of these pages had no answer by its deadline, or no node to give one."""
    return not LATE.isdisjoint(reasons)


@dataclasses.dataclass
class _Request:
    left_s: float  # that the engine may wait for this request's pages
    until_s: float | None = None  # the same as a moment, once an answer was given
    # None: not known yet.
    answers: dict[bytes, bool | None] = dataclasses.field(default_factory=dict)
    # Of the last question, in its order: loads and stores of the same pages need them again.
    asked: list[bytes] = dataclasses.field(default_factory=list)
    names: Any = None
    since_s: float = 0.0  # since when it has keys without an answer


class Lookups:
    """What each request of an engine knows of its keys. One thread uses it.

    `find()` says None until an answer is there. Keys that were asked for since go to the node
    together, with `ask()`. The ticket's deadline ends a question: then its keys are not there. Nor
    are they once `timeout_s` has passed since the first of them, whatever failed. A request keeps
    its answers until `forget()`, so that it meets no page twice that could not be loaded; another
    request asks anew.

    A request has `timeout_s` for its pages: what the question took is gone, and the rest runs from
    the first answer that it gets.
    """

    def __init__(self, name: Name, begin: Ask, timeout_s: float, choose: Choose | None = None, figures: Figures | None = None) -> None:
        self._name = name
        self._begin = begin  # None: no node can be asked, and no page is there
        self.timeout_s, self._choose = timeout_s, choose
        self._figures = Figures() if figures is None else figures
        self._requests: dict[str, _Request] = {}
        self._new: dict[str, list[bytes]] = {}
        self._asked: list[tuple[Ticket, dict[str, list[bytes]]]] = []

    def find(self, key: bytes, request: str) -> bool | None:
        known = self._requests.get(request)
        if known is None:
            known = self._requests[request] = _Request(self.timeout_s)
        answer: Any = known.answers.get(key, _UNASKED)
        if answer is _UNASKED:
            known.answers[key] = answer = None
            if request not in self._new:
                known.since_s = time.monotonic()
            self._new.setdefault(request, []).append(key)
        elif answer is None:
            if time.monotonic() >= known.since_s + self.timeout_s:
                self._give_up(request, known)
                answer = known.answers[key]
        elif answer:
            now = time.monotonic()
            if known.until_s is None:
                known.until_s = now + known.left_s
            if now >= known.until_s:
                self._figures.add("pages", "overdue")
                known.answers[key] = answer = False
        return answer  # type: ignore[no-any-return]

    def _give_up(self, request: str, known: _Request) -> None:
        """Takes what answers there are: others do not come."""
        self.take()
        self._new.pop(request, None)
        known.answers.update([(key, False) for key, answer in known.answers.items() if answer is None])

    @property
    def unasked(self) -> Mapping[str, list[bytes]]:
        """Of each request, the keys that `ask()` is to send."""
        return self._new

    def has_asked(self, keys: Iterable[bytes], request: str) -> bool:
        """Whether the request asked for all of these."""
        known = self._requests.get(request)
        return known is not None and all(key in known.answers for key in keys)

    def names(self, keys: list[bytes], request: str) -> Any:
        """The pages' keys: as they were made for the request's question, if these keys were next to
        each other in it, and otherwise made anew."""
        known = self._requests.get(request)
        if known is not None and keys and keys[0] in known.asked:
            first = known.asked.index(keys[0])
            if known.asked[first:first + len(keys)] == keys:
                return known.names[first:first + len(keys)]
        return self._name(keys)

    def left_s(self, request: str) -> float:
        """How long the engine may still wait for the pages of this request."""
        known = self._requests.get(request)
        if known is None:
            return self.timeout_s
        return known.left_s if known.until_s is None else max(0.0, known.until_s - time.monotonic())

    def spend(self, key: bytes, request: str) -> None:
        """The engine was told that the page is there. It hears that once: if it has no room for the
        page, or gives its room away before it used it, it would load it again and again."""
        self._requests[request].answers[key] = False

    def ask(self) -> None:
        """Sends what was asked for since, and takes the answers that are there."""
        new, self._new = self._new, {}
        if new:
            ticket = None
            try:
                ticket = self._begin(self._names_of(new))
            except FarpageError:  # of which the log tells already
                pass
            except Exception as error:
                tell(self, "lookup", error)
            if ticket is None:
                self._answer_none(new)
            else:
                self._asked.append((ticket, new))
        self.take()

    def _names_of(self, asked: Mapping[str, list[bytes]]) -> Any:
        """Of all their keys, which begin a question."""
        names, first = self._name(list(itertools.chain.from_iterable(asked.values()))), 0
        for request, keys in asked.items():
            known = self._requests.get(request)
            if known is not None:
                known.until_s, known.left_s = None, self.timeout_s
                known.asked, known.names = keys, names[first:first + len(keys)]
            first += len(keys)
        return names

    def take(self) -> None:
        """Takes the answers that are there."""
        before, self._asked = self._asked, []
        for ticket, asked in before:
            try:
                if ticket.done:
                    self._answer(ticket.result(), asked)
                else:
                    self._asked.append((ticket, asked))
            except Exception as error:
                tell(self, "lookup", error)
                self._answer_none(asked)

    def _answer(self, result: Any, asked: dict[str, list[bytes]]) -> None:
        # For so few numbers lists cost less than arrays.
        found = [verdict == READY for verdict in result["verdict"].tolist()]
        took_s = max(result["took_ns"].tolist(), default=0) / 1e9
        self._figures.add("seconds", "lookup", took_s)
        if not all(found) and is_any_late(result["reason"].tolist()):
            self._figures.add("stalls", "lookup")
        self._settle(asked, found, took_s)

    def _answer_none(self, asked: dict[str, list[bytes]]) -> None:
        """What has no answer yet is not there."""
        for request, keys in asked.items():
            answers = self._requests[request].answers if request in self._requests else {}
            answers.update((key, False) for key in keys if answers.get(key, False) is None)

    def _settle(self, asked: dict[str, list[bytes]], found: list[bool], took_s: float) -> None:
        first = 0
        for request, keys in asked.items():
            there, first = found[first:first + len(keys)], first + len(keys)
            known = self._requests.get(request)
            if known is None:
                continue
            known.left_s = max(0.0, known.left_s - took_s)
            if self._choose is not None:
                there = self._choose(keys, there, known.left_s)
            answers = known.answers
            for key, is_there in zip(keys, there):
                if answers.get(key, False) is None:
                    answers[key] = is_there

    def lose(self, keys: Iterable[bytes]) -> None:
        """These could not be loaded: for the requests of now they are not there."""
        lost = set(keys)
        for known in self._requests.values():
            for key in lost & known.answers.keys():
                known.answers[key] = False

    def forget(self, request: str) -> None:
        self._requests.pop(request, None)
        self._new.pop(request, None)

    def reset(self) -> None:
        """Forgets all requests, and what is asked: their pages have other keys from now on."""
        self._requests.clear()
        self._new.clear()
        self._asked.clear()

    @property
    def is_waiting(self) -> bool:
        return bool(self._new or self._asked)
