"""Counts of a client."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

from farpage._library import c, check


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Counts of a client, each as of a moment ago: `Client.statistics()`.

    By verdict and reason, pages of `fetch`, and of `exists` and `leading` where they had to ask a
    node.
    """

    # farpage_statistics_t without its struct_size: the same fields in the same order.
    ready: int
    ready_bytes: int
    miss: int
    stale: int
    corrupt: int
    stalled: int
    unreachable: int
    slower: int
    near_ready: int  # of those that were ready: fetched ahead, before they were asked for
    fetched_ahead: int  # pages so far, asked for since or not
    ahead_places: int  # of ahead.pages, those in use now
    puts_acknowledged: int  # pages so far
    puts_failed: int
    under_way: int  # operations now that are not done
    fetch_tickets_free: int  # so many more fetches are no ExhaustedError now
    put_tickets_free: int  # ... and puts and removes


_WORDS = 1 + len(dataclasses.fields(Statistics))


def statistics_of(handle: Any) -> Statistics:
    words = (ctypes.c_uint64 * _WORDS)()
    words[0] = ctypes.sizeof(words)
    check(c.statistics(handle, words))
    return Statistics(*words[1:])
