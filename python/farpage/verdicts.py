"""What becomes of a page that is fetched."""

from __future__ import annotations

import enum


class Verdict(enum.IntEnum):
    """Whether a page that was fetched can be used."""

    READY = 1  # the memory holds, whole, the bytes that some put of the key committed
    RECOMPUTE = 2  # it holds nothing that can be used; the reason says why


class Reason(enum.IntEnum):
    """Why a page must be recomputed."""

    NONE = 0
    MISS = 1  # no such page, or none of this length
    STALE = 2  # only versions below min_version
    CORRUPT = 3  # what arrived was wrong twice
    STALLED = 4  # not there in time
    UNREACHABLE = 5  # no node to ask
    SLOWER = 6  # it would have come later than its recompute is done
