"""SGLang's pools of host memory: where the parts of its pages lie, and how they are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy
import torch

import farpage
from farpage.engines.namespaces import Epoch

FLAT = b"flat"  # the name of a page that is copied as a whole, as long as a part's number


@dataclasses.dataclass
class Lot:
    """Pages of one pool that move together."""

    pages: int
    page_bytes: int
    keys: Any  # of all their parts, an array (pages × parts, 16)
    places: list[tuple[Any, Any]]  # which of the keys, and their memory
    copies: Sequence[Any] = ()  # tensors of whole pages, where SGLang's own memory cannot be used


def whole_pages(good: Any, pages: int) -> list[bool]:
    """Which pages have all their parts."""
    is_whole: list[bool] = good.reshape(pages, -1).all(axis=1).tolist() if len(good) else [True] * pages
    return is_whole


class HostPool:
    """A page of SGLang's is several pieces of memory: K and V, of each layer or of all, or the
    states of a Mamba layer. Each is a page of Farpage's, named by SGLang's hash and its number. All
    of them are there, or the page is not.

    A pool that has no such pieces is copied: a page of it is one page of Farpage's. So is every
    page of the pool if `is_copied`. A pool without memory, which only counts tokens, has no parts.
    """

    def __init__(self, pool: Any, space: farpage.KeySpace, epoch: Epoch, *, is_copied: bool) -> None:
        self.pool, self.space, self._epoch = pool, space, epoch
        sizes = None if is_copied else _part_sizes(pool)
        self.is_copied = sizes is None
        self.part_bytes = [pool.get_dummy_flat_data_page().nbytes] if sizes is None else sizes
        self.is_empty = not any(self.part_bytes)
        self._suffixes = [] if self.is_empty else [FLAT] if self.is_copied else [part.to_bytes(4, "little") for part in range(len(self.part_bytes))]

    @property
    def parts(self) -> int:
        return len(self._suffixes)

    def keys(self, names: Sequence[str]) -> Any:
        """Of all parts of these pages, an array (pages × parts, 16)."""
        if self.is_empty or not names:
            return numpy.empty((0, 16), numpy.uint8)
        return self.space.keys(self._epoch.names(name.encode() + suffix for name in names for suffix in self._suffixes))

    def buffers(self) -> list[Any]:
        """The tensors that its pages lie in: some may be within others."""
        memory = getattr(self.pool, "kv_buffer", None)
        tensors = [*(memory if isinstance(memory, (list, tuple)) else [memory]), *getattr(self.pool, "get_hybrid_pool_buffer", list)()]
        return [tensor for tensor in tensors if tensor is not None and tensor.nbytes]

    def lot(self, names: Sequence[str], host_indices: Any, regions: Sequence[farpage.Region], *, is_load: bool) -> Lot:
        """Pages at these places of the pool. What lies in no region is not moved."""
        lot = Lot(len(names), sum(self.part_bytes), self.keys(names), [])
        if self.is_empty or not names:
            return lot
        if len(host_indices) < len(names) or len(host_indices) % len(names):
            raise farpage.InvalidError(f"there are {len(names)} pages, and {len(host_indices)} places of tokens for them")
        if self.is_copied:
            lot.copies = [self.pool.get_dummy_flat_data_page() if is_load else self.pool.get_data_page(index, flat=True).contiguous()
                          for index in host_indices[::len(host_indices) // len(names)].tolist()]
            lot.places.append((slice(None), list(lot.copies)))
            return lot
        pointers, sizes = (numpy.array(each, numpy.uint64) for each in self.pool.get_page_buffer_meta(host_indices))
        if len(pointers) != len(lot.keys):
            raise farpage.InvalidError(f"there are {len(lot.keys)} parts of {len(names)} pages, and SGLang names memory for {len(pointers)}")
        for region in regions:
            first, end = numpy.uint64(region.address), numpy.uint64(region.address + region.bytes)
            inside = (pointers >= first) & (pointers + sizes <= end)
            for size in numpy.unique(sizes[inside]).tolist():
                chosen = numpy.flatnonzero(inside & (sizes == size))
                lot.places.append((chosen, region.pages(pointers[chosen] - first, size)))
        return lot

    def keep(self, lot: Lot, whole: Sequence[bool], host_indices: Any) -> None:
        """Pages that were loaded as copies, into the pool."""
        if lot.copies:
            for copy, is_whole, index in zip(lot.copies, whole, host_indices[::len(host_indices) // lot.pages].tolist()):
                if is_whole:
                    self.pool.set_from_flat_data_page(index, copy)


def _part_sizes(pool: Any) -> list[int] | None:
    """The bytes of each part of a page. None: this pool names no memory of its pages."""
    tokens = getattr(pool, "logical_page_size", pool.page_size)
    try:
        meta = pool.get_page_buffer_meta(torch.arange(tokens))
    except Exception:  # what SGLang says of a layout without such memory differs from pool to pool
        return None
    return [] if meta is None else [int(size) for size in meta[1]]
