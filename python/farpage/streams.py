"""Streams of a GPU, and puts behind their work."""

from __future__ import annotations

import operator
from typing import Any, Callable

from farpage._library import c
from farpage.errors import InvalidError


def stream_of(stream: Any) -> int:
    """The CUstream of an integer, of a stream of torch's or CuPy's, or of what has
    `__cuda_stream__()`."""
    if hasattr(stream, "__cuda_stream__"):
        stream = stream.__cuda_stream__()[1]
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    try:
        return operator.index(stream)
    except TypeError:
        raise InvalidError(f"a {type(stream).__name__} is no stream: give one of torch's or CuPy's, or its address") from None


def put_behind(stream: Any) -> Callable[..., int]:
    """The call for puts that wait for the work on a stream."""
    handle = stream_of(stream)

    def call(client: Any, pages: Any, count: int, timeout_us: int, told: Any, ticket: Any) -> int:
        return int(c.put_behind(client, pages, count, timeout_us, handle, told, ticket))

    return call
