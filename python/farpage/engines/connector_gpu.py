"""vLLM's KV cache in a GPU's memory, block by block."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import farpage
from farpage.engines.connector_memory import CacheBlocks, HostBlocks, Landing, Layer, Room, are_dense, require_blocks

if TYPE_CHECKING:
    from farpage.buffers import Pages
    from farpage.client import Client
    from farpage.ticket import Ticket

_log = logging.getLogger("farpage")


class GpuBlocks(CacheBlocks):
    """In a GPU's memory. Pages are fetched straight into it: those of layers, and whole blocks
    where those of all layers have one length and one step. PyTorch copies what goes through the
    host: writes come behind the work of vLLM's stream, and reads go beside it, because vLLM has
    taken what they read."""

    def __init__(self, tensors: Mapping[str, Any], count: int) -> None:
        super().__init__({name: _gpu_layer(name, tensor, count) for name, tensor in tensors.items()}, count)
        self._device: Any = next(iter(tensors.values())).device

    @functools.cached_property
    def _torch(self) -> Any:
        import torch  # which vLLM has loaded

        return torch

    @functools.cached_property
    def _blocks(self) -> list[Any]:
        """Of each layer, a tensor (blocks, bytes)."""
        uint8 = self._torch.uint8
        return [each.memory.view(uint8).as_strided((self._count, each.length), (each.step, 1)) for each in self.layers]

    @functools.cached_property
    def _reads(self) -> Any:
        """A stream, which waits for none."""
        return self._torch.cuda.Stream(self._device)

    def _index(self, numbers: Sequence[int]) -> Any:
        return self._torch.tensor(numbers, dtype=self._torch.int64, device=self._device)

    def _read_layer(self, place: int, numbers: Sequence[int], memory: Any, rows: Sequence[int]) -> None:
        with self._torch.cuda.stream(self._reads):
            chosen = self._index(numbers)
            memory[rows] = self._blocks[place].index_select(0, chosen).cpu().numpy()

    def write_layer(self, place: int, numbers: Sequence[int], memory: Any, rows: Sequence[int]) -> None:
        self._blocks[place].index_copy_(0, self._index(numbers), self._torch.from_numpy(memory[rows]).to(self._device))

    def wait_until_unused(self) -> None:
        self._torch.cuda.current_stream(self._device).synchronize()

    def _span(self, address: int, length: int, layer: Layer) -> Any:
        return _Bytes(layer.memory, address, (length,), (1,))

    def landing(self, client: Client, load_bytes: int) -> Landing:
        if len({(layer.length, layer.step) for layer in self.layers}) > 1:
            return self.staged(client, load_bytes)
        pieces = [_Bytes(layer.memory, layer.address, (self._count, layer.length), (layer.step, 1)) for layer in self.layers]
        try:
            region = client.register_blocks(pieces)
        except farpage.FarpageError as error:
            _log.warning("farpage: blocks are loaded through the host's memory, because those of the KV cache cannot be registered: %s", error)
            return self.staged(client, load_bytes)
        return StraightBlocks(region, Room(load_bytes // self.block_bytes), self._mark)

    def _mark(self) -> Callable[[], bool]:
        """What says whether vLLM's stream has ended what it was given until now."""
        query: Callable[[], bool] = self._torch.cuda.current_stream(self._device).record_event().query
        return query


class StraightBlocks(Landing):
    """They come straight into the cache. Nothing that vLLM began before may still use them then,
    and a block that did not come is vLLM's again once nothing writes to it any more."""

    def __init__(self, region: farpage.Region, room: Room, mark: Callable[[], Callable[[], bool]]) -> None:
        super().__init__(room)
        self._region, self._mark = region, mark

    def mark(self) -> Callable[[], bool]:
        return self._mark()

    def pages(self, numbers: Sequence[int], slots: Sequence[int]) -> Pages:
        return self._region.blocks(numbers)

    def can_judge(self, ticket: Ticket) -> bool:
        return ticket.done and ticket.released


class _Bytes:
    """Of a GPU's memory, across the tensors that lie there."""

    def __init__(self, owner: Any, address: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "|u1", "data": (address, False), "strides": steps, "version": 3}


def _gpu_layer(name: str, tensor: Any, count: int) -> Layer:
    require_blocks(name, tensor, count)
    size = tensor.element_size()
    step, *outer, _ = (size * stride for stride in tensor.stride())
    # In bytes, as of an array of them.
    shape, strides = (*tensor.shape[1:-1], tensor.shape[-1] * size), (*outer, 1)
    if tensor.stride()[-1] != 1 or not are_dense(shape, strides):
        raise farpage.InvalidError(f"blocks of the KV cache of {name} have gaps: on a GPU, FarpageConnector needs blocks without gaps")
    return Layer(tensor.data_ptr(), step, math.prod(shape), False, f"{tensor.dtype}{shape}{strides}", tensor)


def cache_blocks(tensors: Mapping[str, Any], count: int) -> CacheBlocks:
    """Of the tensors that vLLM registers, which all lie on one device."""
    devices = {f"{tensor.device}": tensor.device.type for tensor in tensors.values()}
    kinds = set(devices.values())
    if len(devices) == 1 and kinds == {"cuda"}:
        return GpuBlocks(tensors, count)
    if kinds <= {"cpu"}:
        return HostBlocks(tensors, count)
    raise farpage.InvalidError(f"the KV cache is on {' and '.join(sorted(devices))}: FarpageConnector needs the whole KV cache in host memory or on "
                               "one CUDA GPU. Use the secondary tier farpage.engines.vllm.FarpageTier")
