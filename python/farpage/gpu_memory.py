"""Memory of a GPU that objects have: pages are fetched into it, and put from it."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy

from farpage import dlpack
from farpage._library import GpuBlocks
from farpage.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterable


_MOST = 1 << 63  # bytes


class _Array:
    """In a GPU's memory, as its library describes it: its address, the lengths of its dimensions,
    and in bytes the step from place to place in each, and an element's length."""

    __slots__ = ("address", "item", "owner", "shape", "steps", "what")

    def __init__(self, what: str, owner: Any, address: int, shape: Iterable[int], steps: Iterable[int] | None, item: int) -> None:
        self.what, self.owner, self.address, self.item = what, owner, address, item
        self.shape = tuple(shape)
        whole = (item * math.prod(self.shape[place + 1:]) for place in range(len(self.shape)))
        self.steps = tuple(whole if steps is None else steps)  # None: without gaps
        if not 0 <= address < 1 << 64 or any(abs(number) >= _MOST for number in (item * math.prod(self.shape), *self.shape, *self.steps)):
            raise InvalidError(f"the {what} at {address:#x} of the shape {self.shape} is no memory: its numbers do not fit in 64 bits")

    def length(self, first: int = 0) -> int | None:
        """Of the dimensions from this one on, in bytes. None: they have gaps."""
        if len(self.steps) != len(self.shape):
            return None
        if 0 in self.shape:
            return 0
        length = self.item
        for place in reversed(range(first, len(self.shape))):
            # Where a dimension has one place, its step says nothing.
            if self.shape[place] > 1 and self.steps[place] != length:
                return None
            length *= self.shape[place]
        return length


class GpuMemory:
    """Memory of a GPU without gaps, whose owner it keeps alive."""

    __slots__ = ("address", "bytes", "owner")

    def __init__(self, owner: Any, address: int, length: int) -> None:
        self.owner, self.address, self.bytes = owner, address, length


class GpuPieces:
    """Blocks that lie in pieces in a GPU's memory, as the library takes them. It keeps the owners
    alive."""

    __slots__ = ("bytes", "owners", "paged")

    def __init__(self, owners: list[Any], addresses: list[int], length: int, step: int, count: int) -> None:
        pieces = (ctypes.c_uint64 * len(addresses))(*addresses)
        self.owners, self.bytes = owners, len(addresses) * length * count
        self.paged = GpuBlocks(ctypes.sizeof(GpuBlocks), pieces, len(addresses), length, step, count)


def _not_understood(what: str, owner: Any, why: object) -> InvalidError:
    return InvalidError(f"the {what} of a {type(owner).__name__} is not understood: {why}")


def _read_only() -> InvalidError:
    return InvalidError("the memory is read-only: fetch into a writable buffer")


def _of_tensor(tensor: Any) -> _Array:
    item = tensor.element_size()
    return _Array("tensor", tensor, tensor.data_ptr(), tensor.shape, (item * step for step in tensor.stride()), item)


def _of_interface(owner: Any, interface: Any) -> _Array:
    """By version 2 or 3 of the CUDA Array Interface."""
    try:
        shape = tuple(int(length) for length in interface["shape"])
        item = numpy.dtype(interface["typestr"]).itemsize
        address, is_read_only = interface["data"]
        steps = tuple(int(step) for step in interface.get("strides") or ())
        address = int(address or 0)
        if min(shape, default=0) < 0:
            raise ValueError("a dimension is negative")
        if interface.get("mask") is not None:
            raise ValueError("it has a mask")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _not_understood("__cuda_array_interface__", owner, error) from None
    if is_read_only:
        raise _read_only()
    return _Array("array", owner, address, shape, steps or None, item)


def _of_dlpack(owner: Any) -> _Array:
    capsule = dlpack.capsule_of(owner)
    try:
        tensor, is_read_only = dlpack.tensor_in(capsule)
        shape = tensor.shape[:tensor.dimensions]
        steps = tensor.strides[:tensor.dimensions] if tensor.strides else None
        if min(shape, default=0) < 0:
            raise ValueError("a dimension is negative")
        if tensor.bits * tensor.lanes % 8 != 0:
            raise ValueError(f"its elements have {tensor.bits * tensor.lanes} bits")
    except ValueError as error:
        raise _not_understood("DLPack capsule", owner, error) from None
    if is_read_only:
        raise _read_only()
    item = tensor.bits * tensor.lanes // 8
    return _Array("array", (owner, capsule), (tensor.data or 0) + tensor.byte_offset, shape, steps and [item * step for step in steps], item)


def _array_of(buffer: Any) -> _Array | None:
    """Of a tensor on a GPU, or of what has a `__cuda_array_interface__`, or speaks DLPack. None: it
    is of another kind."""
    torch: Any = sys.modules.get("torch")
    if isinstance(buffer, getattr(torch, "Tensor", ())):  # whose interface lacks types of torch's
        return _of_tensor(buffer) if buffer.device.type == "cuda" else None
    interface = getattr(buffer, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_interface(buffer, interface)
    return _of_dlpack(buffer) if dlpack.is_on_gpu(buffer) else None


def gpu_memory_of(buffer: Any) -> GpuMemory | None:
    """None: it is no memory of a GPU."""
    array = _array_of(buffer)
    if array is None:
        return None
    length = array.length()
    if length is None:
        raise InvalidError(f"the {array.what} is not contiguous: give one without gaps")
    return GpuMemory(array.owner, array.address, length)


def _piece_of(place: int, buffer: Any) -> tuple[_Array, tuple[int, int, int]]:
    """An array, and of its blocks the count, the length and the step from one to the next."""
    array = _array_of(buffer)
    if array is None:
        raise InvalidError(f"piece {place}, a {type(buffer).__name__}, is not in a GPU's memory: blocks in pieces lie there. Use register() for each buffer "
                           "in the host's memory, and fetch into its rows")
    if not array.shape:
        raise InvalidError(f"piece {place} has no dimensions: the first one counts blocks")
    length = array.length(1)
    if length is None:
        raise InvalidError(f"blocks have gaps within piece {place}: give pieces whose blocks are contiguous, such as K and V of a layer apart")
    if length == 0:
        raise InvalidError(f"piece {place} is empty: it has at least one block, and a block 1 byte there")
    # No other block is a step away from a single one.
    step = array.steps[0] if array.shape[0] > 1 else length
    if step < length:
        raise InvalidError(f"blocks of piece {place} overlap or lie in falling order: give one whose next block lies behind the one before")
    return array, (array.shape[0], length, step)


def gpu_blocks_of(pieces: Any) -> GpuPieces:
    """Of a list of arrays, which are the pieces of the same blocks."""
    if not isinstance(pieces, (list, tuple)):
        raise InvalidError(f"the pieces are a {type(pieces).__name__}: give a list of arrays, one for each piece of a block")
    found = [_piece_of(place, piece) for place, piece in enumerate(pieces)]
    if not found:
        raise InvalidError("there are no pieces: give a list of arrays, one for each piece of a block")
    _, (count, length, step) = found[0]
    for place, (_, other) in enumerate(found):
        if other != (count, length, step):
            told = [f"{blocks} blocks of {each} bytes, {apart} bytes apart" for blocks, each, apart in ((count, length, step), other)]
            raise InvalidError(f"piece 0 has {told[0]}, and piece {place} has {told[1]}: give pieces that have all three in common")
    arrays = [array for array, _ in found]
    return GpuPieces([array.owner for array in arrays], [array.address for array in arrays], length, step, count)
