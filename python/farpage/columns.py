"""Columns of numbers beside keys: one number for all of them, or one for each."""

from __future__ import annotations

from typing import Any

import numpy

from farpage.errors import InvalidError

_MOST_FLOAT = float(numpy.finfo(numpy.float32).max)


def values_of(name: str, given: Any, count: int, column: Any) -> Any:
    """Numbers that the column's type can hold: NumPy would wrap or cut others."""
    if type(given) is int and 0 <= given < 1 << 32:  # mostly, and each type can hold it
        return given
    try:
        values = numpy.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidError(f"{name} is no array of numbers: {error}") from None
    if values.size and values.dtype.kind not in ("iu" if column.kind == "u" else "iuf"):
        raise InvalidError(f"{name} is of type {values.dtype}: give {'whole numbers' if column.kind == 'u' else 'numbers'}")
    if values.shape not in ((), (count,)):
        raise InvalidError(f"there are {count} keys, and {name} has the shape {values.shape}: give one number, or one for each key")
    least, most = (0, 2 ** (8 * column.itemsize) - 1) if column.kind == "u" else (-_MOST_FLOAT, _MOST_FLOAT)
    if values.size and not (values.min() >= least and values.max() <= most):
        raise InvalidError(f"{name} is from {values.min()} to {values.max()}: give finite numbers from {least} to {most}")
    return values
