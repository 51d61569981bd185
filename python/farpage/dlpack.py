"""Memory of a GPU by DLPack, as JAX, CuPy, PyTorch and others give it: the structures of dlpack.h,
version 1."""

from __future__ import annotations

import ctypes
from typing import Any

CUDA = 2  # kDLCUDA
READ_ONLY = 1  # of the flags
NO_WAIT = -1  # as stream: the producer puts no wait on one
VERSION = (1, 0)


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("dimensions", ctypes.c_int32),
                ("type_code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Unversioned(ctypes.Structure):
    """DLManagedTensor, before version 1."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("version", Version), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def is_on_gpu(producer: Any) -> bool:
    """Of an object with `__dlpack_device__()`, and of any other."""
    ask = getattr(producer, "__dlpack_device__", None)
    return ask is not None and int(ask()[0]) == CUDA


def capsule_of(producer: Any) -> Any:
    """It keeps the memory alive: nobody renames it, so that its own destructor gives it back."""
    try:
        return producer.__dlpack__(stream=NO_WAIT, max_version=VERSION)
    except TypeError:  # it is older than max_version
        return producer.__dlpack__(stream=NO_WAIT)


def tensor_in(capsule: Any) -> tuple[Tensor, bool]:
    """What a capsule holds, and whether it is for reading alone. ValueError: it holds nothing that
    version 1 describes."""
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if versioned.version.major != VERSION[0]:
            raise ValueError(f"its version is {versioned.version.major}.{versioned.version.minor}, and not 1")
        return versioned.tensor, bool(versioned.flags & READ_ONLY)
    if _is_valid(capsule, b"dltensor"):
        return Unversioned.from_address(_pointer(capsule, b"dltensor")).tensor, False
    raise ValueError("it is no capsule of a tensor that nobody has taken")
