"""Memory of a GPU that an object has: pages are fetched into it."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy

from farpage.errors import InvalidError


class GpuMemory:
    """Memory of a GPU without gaps, whose owner it keeps alive."""

    __slots__ = ("address", "bytes", "owner")

    def __init__(self, owner: Any, address: int, length: int) -> None:
        self.owner, self.address, self.bytes = owner, address, length


def _gaps(what: str) -> InvalidError:
    return InvalidError(f"the {what} is not contiguous: give one without gaps")


def _of_tensor(tensor: Any) -> GpuMemory:
    if not tensor.is_contiguous():
        raise _gaps("tensor")
    return GpuMemory(tensor, tensor.data_ptr(), tensor.numel() * tensor.element_size())


def _of_interface(owner: Any, interface: Any) -> GpuMemory:
    """By version 2 or 3 of the CUDA Array Interface."""
    try:
        shape = tuple(int(length) for length in interface["shape"])
        item = numpy.dtype(interface["typestr"]).itemsize
        address, is_read_only = interface["data"]
        strides = tuple(interface.get("strides") or ())
        address = int(address or 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidError(f"the __cuda_array_interface__ of a {type(owner).__name__} is not understood: {error}") from None
    if is_read_only:
        raise InvalidError("the memory is read-only: fetch into a writable buffer")
    whole = tuple(item * math.prod(shape[place + 1:]) for place in range(len(shape)))
    if strides and strides != whole:
        raise _gaps("array")
    return GpuMemory(owner, address, item * math.prod(shape))


def gpu_memory_of(buffer: Any) -> GpuMemory | None:
    """Of a tensor on a GPU, or of what has a `__cuda_array_interface__`. None: it is of another
    kind."""
    torch: Any = sys.modules.get("torch")
    if isinstance(buffer, getattr(torch, "Tensor", ())):  # whose interface lacks types of torch's
        return _of_tensor(buffer) if buffer.device.type == "cuda" else None
    interface = getattr(buffer, "__cuda_array_interface__", None)
    return None if interface is None else _of_interface(buffer, interface)
