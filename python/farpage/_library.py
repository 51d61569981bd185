"""The C library: the one place that declares its structs and calls (include/farpage/farpage.h).

ctypes releases the GIL for as long as each call lasts.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

from farpage.errors import InvalidError, UnavailableError, error_of

try:
    import ctypes
except ImportError as error:  # the interpreters of CPython 3.12 that have a GIL of their own
    raise InvalidError(f"farpage cannot be used here: {error}: use it in the main interpreter") from error

FOREVER_US = (1 << 64) - 1
KEY_BYTES = 16
OK, TIMEOUT, EXHAUSTED, BUSY = 0, 4, 6, 12

_pointer = ctypes.c_void_p  # of handles: in results an int, or None
_out = ctypes.POINTER(ctypes.c_void_p)
_u64 = ctypes.c_uint64
_size = ctypes.c_size_t


class Notification(ctypes.Structure):
    _fields_ = [("struct_size", _size), ("completions", _pointer), ("tag", _u64), ("callback", _pointer),
                ("context", _pointer), ("fence", _pointer)]


class GpuBlocks(ctypes.Structure):
    _fields_ = [("struct_size", _size), ("pieces", ctypes.POINTER(_u64)), ("piece_count", _size), ("piece_bytes", _u64), ("block_stride", _u64),
                ("blocks", _u64)]


_operation = (ctypes.c_int, _pointer, _pointer, _size, _u64, _pointer, _out)
# What each call returns, and then what it takes.
_CALLS: dict[str, tuple[Any, ...]] = {
    "version": (ctypes.c_char_p,),
    "code_name": (ctypes.c_char_p, ctypes.c_int),
    "last_error": (ctypes.c_char_p,),
    "open": (ctypes.c_int, ctypes.c_char_p, _out),
    "open_file": (ctypes.c_int, ctypes.c_char_p, _out),
    "open_overridden": (ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t, _out),
    "close": (ctypes.c_int, _pointer),
    "page_bytes": (_u64, _pointer),
    "register": (ctypes.c_int, _pointer, _pointer, _u64, _out),
    "register_gpu": (ctypes.c_int, _pointer, _u64, _u64, _out),
    "register_gpu_blocks": (ctypes.c_int, _pointer, ctypes.POINTER(GpuBlocks), _out),
    "region_address": (_u64, _pointer),
    "unregister": (ctypes.c_int, _pointer),
    "fence_new": (ctypes.c_int, _pointer, ctypes.c_int, ctypes.c_uint32, _out),
    "fence_wait": (ctypes.c_int, _pointer, _pointer),
    "fence_clear": (ctypes.c_int, _pointer),
    "fence_address": (_u64, _pointer),
    "fence_free": (None, _pointer),
    "key": (ctypes.c_int, ctypes.c_char_p, _size, ctypes.c_char_p, _size, _pointer),
    "keys": (ctypes.c_int, ctypes.c_char_p, _size, ctypes.c_char_p, _size, _size, _pointer),
    "fetch": _operation,
    "put": _operation,
    "put_behind": (ctypes.c_int, _pointer, _pointer, _size, _u64, _pointer, _pointer, _out),
    "remove": _operation,
    "exists": _operation,
    "announce": (ctypes.c_int, _pointer, _pointer, _size, _u64),
    "withdraw": (ctypes.c_int, _pointer, _pointer, _size),
    "mark_milestones": (ctypes.c_int, _pointer, _pointer, _size),
    "observe": (ctypes.c_int, _pointer, _pointer, _size),
    "statistics": (ctypes.c_int, _pointer, _pointer),
    "ticket_done": (ctypes.c_int, _pointer),
    "ticket_released": (ctypes.c_int, _pointer),
    "ticket_wait": (ctypes.c_int, _pointer, _u64),
    "ticket_wait_released": (ctypes.c_int, _pointer, _u64),
    "ticket_verdicts": (ctypes.c_int, _pointer, _out, ctypes.POINTER(_size)),
    "ticket_results": (ctypes.c_int, _pointer, _out, ctypes.POINTER(_size)),
    "ticket_removed": (ctypes.c_int, _pointer, ctypes.POINTER(_u64)),
    "ticket_why": (ctypes.c_char_p, _pointer),
    "ticket_free": (None, _pointer),
    "completions_new": (ctypes.c_int, _out),
    "completions_fd": (ctypes.c_int, _pointer),
    "completions_take": (ctypes.c_int, _pointer, ctypes.POINTER(_u64), _size, ctypes.POINTER(_size)),
    "completions_free": (None, _pointer),
}


def _require_main_interpreter() -> None:
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = _pointer
    api.PyInterpreterState_GetID.argtypes = [_pointer]
    api.PyInterpreterState_GetID.restype = ctypes.c_int64
    if api.PyInterpreterState_GetID(api.PyInterpreterState_Get()) != 0:
        raise InvalidError("farpage cannot be used in a subinterpreter: use it in the main interpreter")


def _path() -> pathlib.Path:
    """Of the library: FARPAGE_LIBRARY, or the one that the package carries."""
    named = os.environ.get("FARPAGE_LIBRARY")
    return pathlib.Path(named) if named else pathlib.Path(__file__).resolve().parent / "lib" / "libfarpage.so"


def _load() -> Any:
    if sys.implementation.name != "cpython":
        raise InvalidError(f"farpage runs on CPython, and not on {sys.implementation.name}")
    _require_main_interpreter()
    try:
        library = ctypes.CDLL(str(_path()))
    except OSError as error:
        raise UnavailableError(f"the library farpage cannot be loaded: {error}: install the package farpage, or name a built "
                               "libfarpage.so in FARPAGE_LIBRARY") from error
    for name, (result, *arguments) in _CALLS.items():
        try:
            call = getattr(library, f"farpage_{name}")
        except AttributeError:
            raise UnavailableError(f"{_path()} has no farpage_{name}: name the libfarpage.so of this package's version in "
                                   "FARPAGE_LIBRARY, or install the package farpage") from None
        call.restype, call.argtypes = result, arguments
        setattr(library, name, call)
    return library


c = _load()


def check(code: int) -> None:
    """Raises what the last call of this thread said, unless it went well."""
    if code != OK:
        raise error_of(code, c.last_error().decode("utf-8", "replace"))
