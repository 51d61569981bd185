"""vLLM's KV cache, block by block, and memory between it and the client."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
from numpy.lib.stride_tricks import as_strided

import farpage
from farpage.buffers import array_of

if TYPE_CHECKING:
    from farpage.buffers import Pages
    from farpage.client import Client
    from farpage.ticket import Ticket


@dataclasses.dataclass
class Layer:
    """A layer's blocks, in bytes: `step` of them from one to the next, `length` in each."""

    address: int
    step: int
    length: int
    has_gaps: bool  # within a block
    layout: str  # what the order of a block's bytes depends on
    memory: Any  # which it keeps alive


class CacheBlocks:
    """The tensors of a worker's layers, as vLLM registers them: the first dimension counts blocks.
    Layers that share a tensor are one. Where they lie, `HostBlocks` and `GpuBlocks` know."""

    def __init__(self, layers: Mapping[str, Layer], count: int) -> None:
        self.layers: list[Layer] = []
        self.place: dict[str, int] = {}  # of each layer's name
        self._count = count
        known: dict[int, int] = {}
        for name, layer in layers.items():
            if layer.address not in known:
                known[layer.address] = len(self.layers)
                self.layers.append(layer)
            self.place[name] = known[layer.address]
        self.lengths = [layer.length for layer in self.layers]
        self.offsets = numpy.cumsum([0, *self.lengths])
        self.block_bytes = int(self.offsets[-1])
        layouts = [layer.layout for layer in self.layers]
        self.layout = " ".join(f"{layouts.count(layout)}x{layout}" for layout in dict.fromkeys(layouts))
        self._regions: list[farpage.Region] = []

    def read(self, numbers: Sequence[int], memory: Any, rows: Sequence[int]) -> None:
        """Copies blocks of all layers, one layer after the other, to these rows of an array."""
        for place, (first, length) in enumerate(zip(self.offsets, self.lengths)):
            self._read_layer(place, numbers, memory[:, first:first + length], rows)

    def write(self, numbers: Sequence[int], memory: Any, rows: Sequence[int]) -> None:
        """The reverse."""
        for place, (first, length) in enumerate(zip(self.offsets, self.lengths)):
            self.write_layer(place, numbers, memory[:, first:first + length], rows)

    def write_layer(self, place: int, numbers: Sequence[int], memory: Any, rows: Sequence[int]) -> None:
        raise NotImplementedError

    def _read_layer(self, place: int, numbers: Sequence[int], memory: Any, rows: Sequence[int]) -> None:
        raise NotImplementedError

    def wait_until_unused(self) -> None:
        """Blocks until nothing that vLLM has begun still uses a block that it does not hold."""

    def _span(self, address: int, length: int, layer: Layer) -> Any:
        """Memory that a client registers."""
        raise NotImplementedError

    def register(self, client: Client) -> None:
        """Registers the memory of the layers whose blocks have no gaps, once."""
        spans: list[list[Any]] = []  # first and last address, and a layer there
        for layer in sorted((each for each in self.layers if not each.has_gaps), key=lambda each: each.address):
            end = layer.address + layer.step * (self._count - 1) + layer.length
            if spans and layer.address <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], end)
            else:
                spans.append([layer.address, end, layer])
        self._regions = [client.register(self._span(start, end - start, layer)) for start, end, layer in spans]

    def pages(self, place: int, numbers: Sequence[int]) -> Pages | None:
        """Where these blocks of a layer lie, to be fetched straight into; None: they have gaps."""
        layer = self.layers[place]
        if layer.has_gaps:
            return None
        region = next(each for each in self._regions if each.address <= layer.address < each.address + each.bytes)
        return region.pages(layer.address - region.address + numpy.asarray(numbers, numpy.int64) * layer.step, layer.length)

    def landing(self, client: Client, load_bytes: int) -> Landing:
        """Where whole blocks come, of which so many bytes are on their way at one time."""
        return self.staged(client, load_bytes)

    def staged(self, client: Client, load_bytes: int) -> Landing:
        """The same, by way of the host's memory."""
        staging = Staging(load_bytes, self.block_bytes)
        staging.register(client)
        return StagedBlocks(self, staging)


class HostBlocks(CacheBlocks):
    """In the host's memory."""

    def __init__(self, tensors: Mapping[str, Any], count: int) -> None:
        super().__init__({name: _host_layer(name, tensor, count) for name, tensor in tensors.items()}, count)

    def _read_layer(self, place: int, numbers: Sequence[int], memory: Any, rows: Sequence[int]) -> None:
        blocks = self.layers[place].memory
        for number, row in zip(numbers, rows):
            memory[row].reshape(blocks.shape[1:])[...] = blocks[number]

    def write_layer(self, place: int, numbers: Sequence[int], memory: Any, rows: Sequence[int]) -> None:
        blocks = self.layers[place].memory
        for number, row in zip(numbers, rows):
            blocks[number] = memory[row].reshape(blocks.shape[1:])

    def _span(self, address: int, length: int, layer: Layer) -> Any:
        return as_strided(layer.memory[0], (length,), (1,))


def require_blocks(name: str, tensor: Any, count: int) -> None:
    shape = tuple(tensor.shape)
    if len(shape) < 2 or shape[0] != count:
        raise farpage.InvalidError(f"the KV cache of {name} has the shape {shape}, and vLLM has {count} blocks: FarpageConnector serves caches "
                                   "whose first dimension counts blocks")


def are_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the bytes of a block, of these dimensions, lie together in any order."""
    length = 1
    for stride, size in sorted(zip(strides, shape)):
        if size > 1 and stride != length:
            return False
        length *= size
    return True


def _host_layer(name: str, tensor: Any, count: int) -> Layer:
    require_blocks(name, tensor, count)
    array = array_of(tensor)
    layout = f"{tensor.dtype}{array.shape[1:]}{array.strides[1:]}"
    is_dense = are_dense(array.shape[1:], array.strides[1:])
    length = int(array[0].nbytes)
    memory = as_strided(array, (count, length), (array.strides[0], 1)) if is_dense else array
    return Layer(int(array.__array_interface__["data"][0]), array.strides[0], length, not is_dense, layout, memory)


class Room:
    """A slot for each of so many blocks on their way. One thread uses it."""

    def __init__(self, slots: int) -> None:
        self._free = list(range(slots))

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, most: int) -> list[int]:
        taken, self._free = self._free[:most], self._free[most:]
        return taken

    def give_back(self, slots: Iterable[int]) -> None:
        self._free.extend(slots)


class Staging(Room):
    """Memory for whole blocks on their way, at least one, registered once. One thread uses it, but
    for `register()`."""

    def __init__(self, length: int, block_bytes: int) -> None:
        super().__init__(length // block_bytes)
        self.rows = numpy.empty((length // block_bytes, block_bytes), numpy.uint8)
        self._region: farpage.Region | None = None

    def register(self, client: Client) -> None:
        self._region = client.register(self.rows)

    def pages(self, slots: Sequence[int], firsts: Sequence[int], length: int) -> Pages:
        """Of each slot, so many bytes from each of `firsts` on: slot by slot."""
        assert self._region is not None
        starts = numpy.asarray(slots, numpy.int64)[:, None] * self.rows.shape[1] + numpy.asarray(firsts, numpy.int64)
        return self._region.pages(starts.reshape(-1), length)


class Landing:
    """Where whole blocks come that are loaded, and `room` for those on their way. One thread uses
    it."""

    def __init__(self, room: Room) -> None:
        self.room = room

    def mark(self) -> Callable[[], bool]:
        """What says from now on whether blocks that vLLM wants now may be fetched. Neither
        blocks."""
        return lambda: True

    def pages(self, numbers: Sequence[int], slots: Sequence[int]) -> Pages:
        """Where these blocks are fetched to."""
        raise NotImplementedError

    def can_judge(self, ticket: Ticket) -> bool:
        """Whether vLLM may hear what became of a fetch."""
        return ticket.done

    def finish(self, numbers: Sequence[int], slots: Sequence[int]) -> None:
        """Of blocks that came. RuntimeError, as PyTorch says that a GPU has no memory left: they
        are not in the cache."""


class StagedBlocks(Landing):
    """They come to the host's memory, and are copied from there into the cache: nothing else writes
    there."""

    def __init__(self, cache: CacheBlocks, staging: Staging) -> None:
        super().__init__(staging)
        self._cache, self._staging = cache, staging

    def pages(self, numbers: Sequence[int], slots: Sequence[int]) -> Pages:
        return self._staging.pages(slots, [0], self._cache.block_bytes)

    def finish(self, numbers: Sequence[int], slots: Sequence[int]) -> None:
        self._cache.write(numbers, self._staging.rows, slots)
