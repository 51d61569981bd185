"""Memory of a GPU that an object has: pages are fetched into it."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy

from farpage import dlpack
from farpage.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence


class GpuMemory:
    """Memory of a GPU without gaps, whose owner it keeps alive."""

    __slots__ = ("address", "bytes", "owner")

    def __init__(self, owner: Any, address: int, length: int) -> None:
        self.owner, self.address, self.bytes = owner, address, length


def _gaps(what: str) -> InvalidError:
    return InvalidError(f"the {what} is not contiguous: give one without gaps")


def _not_understood(what: str, owner: Any, why: object) -> InvalidError:
    return InvalidError(f"the {what} of a {type(owner).__name__} is not understood: {why}")


def _read_only() -> InvalidError:
    return InvalidError("the memory is read-only: fetch into a writable buffer")


def _has_gaps(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    """Where a dimension has one place, its stride says nothing."""
    whole = [item * math.prod(shape[place + 1:]) for place in range(len(shape))]
    return len(strides) != len(shape) or any(length > 1 and stride != due for length, stride, due in zip(shape, strides, whole))


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
        strides = tuple(int(stride) for stride in interface.get("strides") or ())
        address = int(address or 0)
        if min(shape, default=0) < 0:
            raise ValueError("a dimension is negative")
        if interface.get("mask") is not None:
            raise ValueError("it has a mask")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _not_understood("__cuda_array_interface__", owner, error) from None
    if is_read_only:
        raise _read_only()
    if strides and _has_gaps(shape, strides, item):
        raise _gaps("array")
    return GpuMemory(owner, address, item * math.prod(shape))


def _of_dlpack(owner: Any) -> GpuMemory:
    capsule = dlpack.capsule_of(owner)
    try:
        tensor, is_read_only = dlpack.tensor_in(capsule)
        shape = tensor.shape[:tensor.dimensions]
        strides = tensor.strides[:tensor.dimensions] if tensor.strides else None
        if min(shape, default=0) < 0:
            raise ValueError("a dimension is negative")
        if tensor.bits * tensor.lanes % 8 != 0:
            raise ValueError(f"its elements have {tensor.bits * tensor.lanes} bits")
    except ValueError as error:
        raise _not_understood("DLPack capsule", owner, error) from None
    if is_read_only:
        raise _read_only()
    if strides is not None and _has_gaps(shape, strides, 1):
        raise _gaps("array")
    return GpuMemory((owner, capsule), (tensor.data or 0) + tensor.byte_offset, tensor.bits * tensor.lanes // 8 * math.prod(shape))


def gpu_memory_of(buffer: Any) -> GpuMemory | None:
    """Of a tensor on a GPU, or of what has a `__cuda_array_interface__`, or speaks DLPack. None: it
    is of another kind."""
    torch: Any = sys.modules.get("torch")
    if isinstance(buffer, getattr(torch, "Tensor", ())):  # whose interface lacks types of torch's
        return _of_tensor(buffer) if buffer.device.type == "cuda" else None
    interface = getattr(buffer, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_interface(buffer, interface)
    return _of_dlpack(buffer) if dlpack.is_on_gpu(buffer) else None
