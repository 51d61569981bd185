"""An engine's threads meet no exception of Farpage's: what failed is a miss, or a failed store."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from farpage.errors import FarpageError

_log = logging.getLogger("farpage")
_Method = TypeVar("_Method", bound=Callable[..., Any])


def tell(owner: Any, where: str, error: Exception) -> None:
    """The log has one line of each kind of error in each place of an object. Any thread may call
    it."""
    told = owner.__dict__.setdefault("_errors_told", set())
    if (where, type(error)) not in told:
        told.add((where, type(error)))
        # Farpage's own errors say what to do, and others where they come from.
        _log.error("farpage: %s: %s", where, error, exc_info=None if isinstance(error, FarpageError) else error)


def answering(nothing: Callable[..., Any]) -> Callable[[_Method], _Method]:
    """For a method that an engine calls: if it fails, its answer is `nothing(arguments)`."""
    def wrap(method: _Method) -> _Method:
        @functools.wraps(method)
        def call(self: Any, *arguments: Any, **more: Any) -> Any:
            try:
                return method(self, *arguments, **more)
            except Exception as error:
                tell(self, method.__name__, error)
                return nothing(*arguments)
        return call  # type: ignore[return-value]
    return wrap
