"""Accesses of a decode: what `Client.observe()` tells the prefetcher."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy

from farpage.columns import values_of
from farpage.keys import keys_of

if TYPE_CHECKING:
    from farpage.keys import Keys

# farpage_access_t
ACCESS = numpy.dtype([("struct_size", "u8"), ("key", "u8", 2), ("step", "u8"), ("head", "u4"), ("category", "u4"), ("mass", "f4"),
                      ("score", "f4"), ("similarity", "f4"), ("entropy", "f4"), ("margin", "f4"), ("mark", "u4")])


class Mark(enum.IntEnum):
    """The engine's note on the token of a step: that it begins a step of reasoning, and its
    purpose."""

    NONE = 0
    BEGINS = 1
    EXPLORES = 2
    VERIFIES = 3
    CONCLUDES = 4


def accesses_of(keys: Keys, columns: dict[str, Any]) -> Any:
    """Accesses in the library's form, as an array of ACCESS."""
    found = keys_of(keys)[0]
    accesses = numpy.zeros(len(found), ACCESS)
    accesses["struct_size"] = ACCESS.itemsize
    accesses["key"] = found.view(numpy.uint64)
    for name, given in columns.items():
        accesses[name] = values_of(name, given, len(found), ACCESS[name])
    return accesses
