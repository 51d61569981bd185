"""vLLM's KV cache in the host's memory, block by block, and memory between it and the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy
from numpy.lib.stride_tricks import as_strided

import farpage
from farpage.buffers import array_of

if TYPE_CHECKING:
    from farpage.buffers import Pages
    from farpage.client import Client


class CacheBlocks:
    """The tensors of a worker's layers, as vLLM registers them: the first dimension counts blocks.

    It keeps them alive. Layers that share a tensor are one.
    """

    def __init__(self, tensors: Mapping[str, Any], count: int) -> None:
        # Bytes of each: (blocks, bytes), or more dimensions where a block has gaps.
        self.layers: list[Any] = []
        self.place: dict[str, int] = {}  # of each layer's name
        layouts: list[str] = []
        known: dict[int, int] = {}
        for name, tensor in tensors.items():
            array = _bytes_of(name, tensor, count)
            address = array.__array_interface__["data"][0]
            if address not in known:
                known[address] = len(self.layers)
                self.layers.append(_dense(array))
                layouts.append(f"{tensor.dtype}{array.shape[1:]}{array.strides[1:]}")
            self.place[name] = known[address]
        self.lengths = [int(layer[0].nbytes) for layer in self.layers]
        self.offsets = numpy.cumsum([0, *self.lengths])
        self.block_bytes = int(self.offsets[-1])
        self.layout = " ".join(f"{layouts.count(layout)}x{layout}" for layout in dict.fromkeys(layouts))
        self._regions: list[farpage.Region] = []

    def read(self, number: int, into: Any) -> None:
        """Copies a block of all layers, one after the other."""
        for layer, first, length in zip(self.layers, self.offsets, self.lengths):
            into[first:first + length].reshape(layer.shape[1:])[...] = layer[number]

    def write(self, number: int, source: Any) -> None:
        for layer, first, length in zip(self.layers, self.offsets, self.lengths):
            layer[number] = source[first:first + length].reshape(layer.shape[1:])

    def write_layer(self, layer: int, number: int, source: Any) -> None:
        self.layers[layer][number] = source.reshape(self.layers[layer].shape[1:])

    def register(self, client: Client) -> None:
        """Registers the memory of the layers whose blocks have no gaps, once."""
        spans: list[list[Any]] = []  # first and last address, and an array there
        for start, layer in sorted(((_address(layer), layer) for layer in self.layers if layer.ndim == 2), key=lambda each: each[0]):
            end = start + layer.strides[0] * (len(layer) - 1) + layer.shape[1]
            if spans and start <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], end)
            else:
                spans.append([start, end, layer])
        self._regions = [client.register(as_strided(layer[0], (end - start,), (1,))) for start, end, layer in spans]

    def pages(self, layer: int, numbers: Sequence[int]) -> Pages | None:
        """Where these blocks of a layer lie, to be fetched straight into; None: they have gaps."""
        rows = self.layers[layer]
        if rows.ndim != 2:
            return None
        start = _address(rows)
        region = next(each for each in self._regions if each.address <= start < each.address + each.bytes)
        return region.pages(start - region.address + numpy.asarray(numbers, numpy.int64) * rows.strides[0], rows.shape[1])


def _bytes_of(name: str, tensor: Any, count: int) -> Any:
    if tensor.device.type != "cpu":
        raise farpage.InvalidError(f"the KV cache of {name} is on {tensor.device}: FarpageConnector moves KV caches in the host's memory alone, and pools "
                                   "in a GPU's memory are not there yet. Use the secondary tier farpage.engines.vllm.FarpageTier")
    array = array_of(tensor)
    if array.ndim < 2 or len(array) != count:
        raise farpage.InvalidError(f"the KV cache of {name} has the shape {tuple(tensor.shape)}, and vLLM has {count} blocks: FarpageConnector "
                                   "serves caches whose first dimension counts blocks")
    return array


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _dense(array: Any) -> Any:
    """(blocks, bytes) of the same memory where a block has no gaps in itself."""
    length = 1
    for stride, size in sorted(zip(array.strides[1:], array.shape[1:])):
        if size > 1 and stride != length:
            return array
        length *= size
    return as_strided(array, (len(array), length), (array.strides[0], 1))


class Staging:
    """Memory for whole blocks on their way, registered once. One thread uses it, but for
    `register()`."""

    def __init__(self, length: int, block_bytes: int) -> None:
        self.rows = numpy.empty((max(1, length // block_bytes), block_bytes), numpy.uint8)
        self._free = list(range(len(self.rows)))
        self._region: farpage.Region | None = None

    def register(self, client: Client) -> None:
        self._region = client.register(self.rows)

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, most: int) -> list[int]:
        taken, self._free = self._free[:most], self._free[most:]
        return taken

    def give_back(self, slots: Iterable[int]) -> None:
        self._free.extend(slots)

    def pages(self, slots: Sequence[int], firsts: Sequence[int], length: int) -> Pages:
        """Of each slot, so many bytes from each of `firsts` on: slot by slot."""
        assert self._region is not None
        starts = numpy.asarray(slots, numpy.int64)[:, None] * self.rows.shape[1] + numpy.asarray(firsts, numpy.int64)
        return self._region.pages(starts.reshape(-1), length)
