"""Accesses of a decode: what `Client.observe()` tells the prefetcher."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy

from farpage.errors import InvalidError
from farpage.keys import keys_of

if TYPE_CHECKING:
    from farpage.keys import Keys

# farpage_access_t
ACCESS = numpy.dtype([("struct_size", "u8"), ("key", "u8", 2), ("step", "u8"), ("head", "u4"), ("category", "u4"), ("mass", "f4"),
                      ("score", "f4"), ("similarity", "f4"), ("entropy", "f4"), ("margin", "f4"), ("mark", "u4")])
_MOST_FLOAT = float(numpy.finfo(numpy.float32).max)


class Mark(enum.IntEnum):
    """The engine's note on the token of a step: that it begins a step of reasoning, and its
    purpose."""

    NONE = 0
    BEGINS = 1
    EXPLORES = 2
    VERIFIES = 3
    CONCLUDES = 4


def _values_of(name: str, given: Any, count: int) -> Any:
    """One number, or one for each access, that the column can hold: NumPy would wrap others."""
    if type(given) is int and 0 <= given < 1 << 32:  # most columns, and each can hold it
        return given
    try:
        values = numpy.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidError(f"{name} is no array of numbers: {error}") from None
    column = ACCESS[name]
    if values.size and values.dtype.kind not in ("iu" if column.kind == "u" else "iuf"):
        raise InvalidError(f"{name} is of type {values.dtype}: give {'whole numbers' if column.kind == 'u' else 'numbers'}")
    if values.shape not in ((), (count,)):
        raise InvalidError(f"there are {count} keys, and {name} has the shape {values.shape}: give one number, or one for each key")
    least, most = (0, 2 ** (8 * column.itemsize) - 1) if column.kind == "u" else (-_MOST_FLOAT, _MOST_FLOAT)
    if values.size and not (values.min() >= least and values.max() <= most):
        raise InvalidError(f"{name} is from {values.min()} to {values.max()}: give finite numbers from {least} to {most}")
    return values


def accesses_of(keys: Keys, columns: dict[str, Any]) -> Any:
    """Accesses in the library's form, as an array of ACCESS."""
    found = keys_of(keys)[0]
    accesses = numpy.zeros(len(found), ACCESS)
    accesses["struct_size"] = ACCESS.itemsize
    accesses["key"] = found.view(numpy.uint64)
    for name, given in columns.items():
        accesses[name] = _values_of(name, given, len(found))
    return accesses
