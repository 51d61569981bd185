"""Memory of pages: where it lies, who owns it, and which of it is registered."""

from __future__ import annotations

import bisect
import ctypes
import functools
import operator
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from farpage._library import OK, c, check
from farpage.errors import InvalidError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from farpage._library import GpuBlocks
    from farpage.client import Client
    from farpage.gpu_memory import GpuMemory, GpuPieces

# farpage_page_t as six words, of which its key takes two: a row of them is filled and copied
# several times as fast as one of a structured type.
PAGE_WORDS = 6
PAGE_SIZE, KEY, DATA, BYTES, MIN_VERSION = 0, 1, 3, 4, 5
_WORDS: dict[str, Any] = {"dtype": numpy.uint64}  # arange() is typed without it
SPARE = 4  # pages of operations to come, in the same place as of one before
_byte_at: Any = ctypes.c_char.from_buffer


def array_of(buffer: Any) -> NDArray[Any]:
    """A view of a buffer's own memory, which keeps the buffer from going and from being resized."""
    if isinstance(buffer, numpy.ndarray):
        if buffer.dtype.hasobject:
            raise InvalidError("an array of Python objects has no bytes to move: give numbers")
        return buffer
    torch: Any = sys.modules.get("torch")
    if isinstance(buffer, getattr(torch, "Tensor", ())):  # another thread may import it now
        if buffer.device.type != "cpu":
            raise InvalidError(f"the tensor is on {buffer.device}: register it, and fetch into region.pages(offsets, page_bytes)")
        if buffer.layout != torch.strided:
            raise InvalidError("the tensor is sparse: give a dense one")
        # Of a tensor that NumPy sees, torch no longer resizes the memory.
        try:
            seen: NDArray[Any] = buffer.detach().view(torch.uint8).numpy()
            return seen
        except RuntimeError as error:
            raise InvalidError(f"the tensor's last dimension is not contiguous: give a copy, tensor.contiguous() ({error})") from error
    try:
        view = memoryview(buffer)
    except TypeError:
        raise InvalidError(f"a {type(buffer).__name__} is no buffer: give bytes-like objects, NumPy arrays or CPU tensors") from None
    if not view.c_contiguous:
        raise InvalidError("the buffer is not contiguous: give one without steps")
    if view.nbytes == 0:
        return numpy.empty(view.shape or 0, numpy.uint8)
    array = numpy.frombuffer(view, numpy.uint8)
    return array.reshape(len(view), -1) if view.ndim > 1 else array


def address_of(array: NDArray[Any]) -> int:
    try:
        return ctypes.addressof(_byte_at(array))  # a third of what the other way costs
    except (TypeError, ValueError, BufferError):  # read-only, with gaps, or of an odd type
        return int(array.__array_interface__["data"][0])


def _whole(array: NDArray[Any]) -> tuple[int, int]:
    """Address and length of an array without gaps."""
    if not array.flags.c_contiguous:
        raise InvalidError("the array is not contiguous: give a copy, numpy.ascontiguousarray(array), or pages that are contiguous")
    if array.nbytes == 0:
        raise InvalidError("the buffer is empty: a page has at least 1 byte")
    return address_of(array), array.nbytes


class Region:
    """Registered memory of a client: `Client.register()` and `Client.register_blocks()` make it.

    It keeps its buffers alive until `close()`, or until the client is closed. Any thread may use
    it.
    """

    def __init__(self, regions: Regions, array: Any, address: int, length: int, *, is_borrowed: bool, paged: GpuBlocks | None = None) -> None:
        self._regions = regions
        self._array: Any = array  # or the owner of a GPU's memory; until it is closed, then None
        self._handle = ctypes.c_void_p()  # null until it is registered
        self._arm()
        # Of its first byte. Of blocks the library gives one, at which nothing lies.
        self.address = address
        self.bytes = length
        self._paged = paged  # None: it has no blocks
        self.block_bytes = 0 if paged is None else int(paged.piece_count * paged.piece_bytes)
        # Its pages can be fetched into, and not put; or put, and not fetched into.
        self.on_gpu = not isinstance(array, numpy.ndarray)
        self.read_only = not self.on_gpu and not array.flags.writeable
        # Registered for operations alone, and for which.
        self._is_borrowed = is_borrowed
        self._users: set[int] = set()

    def _arm(self) -> None:
        self._to_end = iter((self._handle,))  # gives the handle to who ends it, once
        self._said: list[int] = []  # by the library to that

    def _register(self, client: Any) -> None:
        handle = ctypes.byref(self._handle)
        if self._paged is None:
            check((c.register_gpu if self.on_gpu else c.register)(client, self.address, self.bytes, handle))
        else:
            check(c.register_gpu_blocks(client, ctypes.byref(self._paged), handle))
            self.address = int(c.region_address(self._handle))

    @property
    def _is_registered(self) -> bool:
        return self._handle.value is not None and (operator.length_hint(self._to_end) == 1 or self._is_busy)

    @property
    def _is_busy(self) -> bool:
        """It was to end, and did not."""
        return any(code != OK for code in self._said)

    def pages(self, offsets: ArrayLike, page_bytes: int) -> Pages:
        """Pages of `page_bytes` bytes each that begin at the offsets, in bytes: what
        `Client.fetch()` and `Client.put()` take as memory, as often as you like. InvalidError: not
        within the region."""
        try:
            starts, page_bytes = numpy.atleast_1d(numpy.asarray(offsets)), operator.index(page_bytes)
        except (TypeError, ValueError) as error:
            raise InvalidError(f"offsets and page_bytes are whole numbers of bytes: {error}") from None
        if not starts.size:
            starts = starts.astype(numpy.uint64)  # of an empty list the type is float
        if starts.ndim != 1 or starts.dtype.kind not in "iu":
            raise InvalidError("offsets are whole numbers of bytes: a list, or an array of one dimension")
        if not 1 <= page_bytes <= self.bytes or (starts.size and not (0 <= starts.min() and starts.max() <= self.bytes - page_bytes)):
            raise InvalidError(f"pages of {page_bytes} bytes at these offsets do not lie within the region's {self.bytes} bytes")
        rows = rows_of(starts.astype(numpy.uint64) + numpy.uint64(self.address), page_bytes, starts.size)
        return Pages(rows, self.read_only, region=self)

    def blocks(self, numbers: ArrayLike) -> Pages:
        """Pages that are the blocks of these numbers, counted from 0, in this order. InvalidError:
        there is no such block; or the region is not `Client.register_blocks()`'s."""
        if self._paged is None:
            raise InvalidError("the region has no blocks: give region.pages(offsets, page_bytes), or register the memory with Client.register_blocks()")
        return Pages(self._rows_of_blocks, self.read_only, region=self).at(numbers)

    @functools.cached_property
    def _rows_of_blocks(self) -> NDArray[Any]:
        return self.pages(numpy.arange(0, self.bytes, self.block_bytes, **_WORDS), self.block_bytes).rows

    def close(self) -> None:
        """Ends the registration, and lets the buffer go, once operations whose tickets were dropped
        are released. BusyError: a ticket that you hold still uses the memory: `wait_released()`,
        drop the ticket, and try again. Closed already: nothing."""
        self._regions.remove(self)

    def __enter__(self) -> Region:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Pages:
    """Where pages lie: one place for each, in registered memory. `len()` says how many."""

    __slots__ = ("_array", "place", "read_only", "region", "rows")

    def __init__(self, rows: NDArray[Any], read_only: bool, *, region: Region | None = None,
                 array: Any = None, place: Any = None) -> None:
        self.rows, self.read_only = rows, read_only  # rows: (pages, PAGE_WORDS)
        self.region = region  # whose pages() made them
        self._array = array  # which keeps the memory while an operation begins
        self.place = place  # of pages that lie in one row, and may do so again

    def name(self, keys: NDArray[Any]) -> None:
        self.rows[:, KEY:DATA] = keys.view(numpy.uint64)

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, places: ArrayLike) -> Pages:
        """Those at these places, counted from 0, in this order. Costs less than `Region.pages()`:
        engines make the pages of all their memory once. InvalidError: there is no such page."""
        chosen = numpy.atleast_1d(places)
        if chosen.dtype.kind == "u":
            chosen = chosen.astype(numpy.int64)  # what does not fit is below 0
        try:
            # Python's min() and take() cost a third of what chosen.min() and rows[chosen] do.
            if chosen.size and min(chosen.tolist()) >= 0:
                return Pages(self.rows.take(chosen, axis=0), self.read_only, region=self.region)
        except (IndexError, TypeError):
            pass
        if not chosen.size:
            return Pages(self.rows[:0].copy(), self.read_only, region=self.region)
        raise InvalidError(f"there are {len(self)} pages: places are whole numbers from 0 to {len(self) - 1}")


def rows_of(addresses: Any, page_bytes: Any, count: int) -> NDArray[numpy.uint64]:
    rows = numpy.zeros((count, PAGE_WORDS), numpy.uint64)
    rows[:, PAGE_SIZE] = 8 * PAGE_WORDS
    rows[:, DATA] = addresses
    rows[:, BYTES] = page_bytes
    return rows


class Regions:
    """A client's registered memory, by address. Regions do not overlap.

    Who reads takes no lock: a change makes new lists. A signal may bring an exception at any line,
    and behind any call of the library: an operation has a region among what is lent to it before
    that is registered, and what was not done to its end is done again.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.renew_lock()
        self._spare: dict[Any, Pages] = {}  # by place: engines come again and again
        self._ended: list[list[Region]] = []  # what was lent to operations that need it no more
        self._sorted: tuple[list[int], list[Region]] = ([], [])

    def renew_lock(self) -> None:
        """In the child of a fork: the thread that had it may be missing there."""
        self._lock: Any = threading.RLock()  # which knows its owner; nobody takes it twice

    def _find(self, address: int, length: int) -> Region | None:
        starts, regions = self._sorted
        place = bisect.bisect_right(starts, address) - 1
        if place < 0:
            return None
        region = regions[place]
        return region if address + length <= region.address + region.bytes else None

    def _add(self, region: Region) -> None:
        starts, regions = self._sorted
        place = bisect.bisect(starts, region.address)
        self._sorted = ([*starts[:place], region.address, *starts[place:]], [*regions[:place], region, *regions[place:]])

    def _take_out(self, region: Region) -> None:
        starts, regions = self._sorted
        if region in regions:
            place = regions.index(region)
            self._sorted = (starts[:place] + starts[place + 1:], regions[:place] + regions[place + 1:])

    def _register(self, region: Region) -> None:
        region._register(self._client._opened())
        self._add(region)

    def _unregister(self, region: Region) -> int:
        """What the library says. OK: its buffer goes. Closed already, or never registered: OK."""
        try:
            if region._is_busy:
                region._arm()
            self._take_out(region)
            # One step: the handle is taken, ended and the code kept, and no signal comes between.
            region._said.extend(map(c.unregister, region._to_end))
        finally:
            if not region._is_registered:
                region._array = None
            elif region not in self._sorted[1]:
                self._add(region)
        return region._said[0] if region._said else OK

    def _try_to_give_back(self) -> None:
        while self._ended and not self._lock._is_owned():
            try:
                if not self._lock.acquire(blocking=False):
                    return
                self._give_back()
            finally:  # also if a signal came as soon as it was taken
                if self._lock._is_owned():
                    self._lock.release()

    def _give_back(self) -> None:
        while self._ended:
            lent = self._ended[0]
            for region in lent:
                region._users.discard(id(lent))
                if region._is_borrowed and not region._users:
                    self._unregister(region)
            del self._ended[0]

    def add(self, array: NDArray[Any]) -> Region:
        return self._added(Region(self, array, *_whole(array), is_borrowed=False))

    def add_gpu(self, memory: GpuMemory) -> Region:
        return self._added(Region(self, memory.owner, memory.address, memory.bytes, is_borrowed=False))

    def add_blocks(self, memory: GpuPieces) -> Region:
        return self._added(Region(self, memory.owners, 0, memory.bytes, is_borrowed=False, paged=memory.paged))

    def _added(self, region: Region) -> Region:
        try:
            with self._lock:
                self._give_back()
                self._register(region)
            self._try_to_give_back()
            return region
        except BaseException:  # a signal, and nobody gets the region
            with self._lock:
                self._unregister(region)
            raise

    def remove(self, region: Region) -> None:
        if not self._client._is_ours():
            return
        self._client._end_let_gone(region)
        with self._lock:
            self._give_back()
            code = self._unregister(region)
        check(code)
        self._try_to_give_back()

    def borrow(self, lent: list[Region], array: NDArray[Any], address: int, length: int) -> None:
        """Lends the region that the memory lies in, or one for as long as operations use it."""
        region = self._find(address, length)
        if region is not None and not region._is_borrowed:
            lent.append(region)
            return
        with self._lock:
            self._give_back()
            region = self._find(address, length)
            if region is None:
                region = Region(self, array, address, length, is_borrowed=True)
            lent.append(region)
            if region._is_borrowed:
                region._users.add(id(lent))
            if not region._is_registered:
                self._register(region)
        self._try_to_give_back()

    def forget(self) -> list[Region]:
        """The client ends them itself. The buffers of what is returned must outlive that."""
        with self._lock:
            regions = self._sorted[1]
            for region in regions:
                region._said, region._to_end = [], iter(())  # nobody else ends it
            self._sorted = ([], [])
        return regions

    def pages(self, lent: list[Region], memory: Any, count: int, is_single: bool) -> Pages:
        """Where the pages of an operation lie, in regions that are lent to it. A page that is given
        by itself is the whole buffer."""
        if isinstance(memory, Pages):
            pages = self._of_region(lent, memory)
        elif isinstance(memory, (list, tuple)):
            pages = self._each(lent, memory)
        else:
            pages = self._rows(lent, memory, 1 if is_single else count, is_single)
        if len(pages) != count:
            raise InvalidError(f"there are {count} keys, and memory for {len(pages)} pages")
        return pages

    def end(self, lent: list[Region]) -> None:
        """An operation needs them no more. Takes no lock: it may run wherever an object goes, also
        in a thread that holds the lock. What was ended already changes nothing."""
        for region in lent:
            if region._is_borrowed:
                self._ended.append(lent)
                self._try_to_give_back()
                return

    def _of_region(self, lent: list[Region], pages: Pages) -> Pages:
        assert pages.region is not None
        lent.append(pages.region)
        array = pages.region._array
        if array is None:  # other memory may lie there now
            raise InvalidError("the region of these pages is closed: register the memory again")
        return Pages(pages.rows.copy(), pages.read_only, region=pages.region, array=array)

    def _each(self, lent: list[Region], buffers: Sequence[Any]) -> Pages:
        arrays = [array_of(buffer) for buffer in buffers]
        places = [_whole(array) for array in arrays]
        for array, (address, length) in zip(arrays, places):
            self.borrow(lent, array, address, length)
        rows = rows_of([address for address, _ in places], [length for _, length in places], len(places))
        return Pages(rows, not all(array.flags.writeable for array in arrays))

    def _rows(self, lent: list[Region], buffer: Any, count: int, is_single: bool) -> Pages:
        if isinstance(buffer, Region):
            raise InvalidError("a region says not where its pages are: give region.pages(offsets, page_bytes)")
        array = array_of(buffer)
        if count == 0 and array.ndim and len(array) == 0:
            return Pages(rows_of(0, 0, 0), False)
        if is_single or array.ndim < 2:
            address, length = _whole(array)
            if count == 0 or length % count:
                raise InvalidError(f"a buffer of {length} bytes cannot be cut into {count} pages of the same length")
            page_bytes = stride = length // count
        elif len(array) != count:
            raise InvalidError(f"there are {count} keys, and memory for {len(array)} pages: the array's first dimension counts pages")
        elif array.flags.c_contiguous:
            address, length = _whole(array)
            page_bytes = stride = length // count
        else:
            address, page_bytes = _whole(array[:1])
            stride = array.strides[0]
            if stride < page_bytes:
                raise InvalidError("the array's pages overlap or lie in falling order: give a copy")
            length = stride * (count - 1) + page_bytes
        self.borrow(lent, array, address, length)
        place = (address, stride, page_bytes, count, array.flags.writeable)
        spare = self._spare.pop(place, None)  # no other thread has it
        if spare is not None:
            return spare
        addresses = numpy.arange(address, address + stride * count, stride, **_WORDS)
        return Pages(rows_of(addresses, page_bytes, count), not array.flags.writeable, place=place)

    def spare(self, pages: Pages) -> None:
        """The library has copied them."""
        if pages.place is not None:
            if len(self._spare) >= SPARE:
                self._spare.clear()
            self._spare[pages.place] = pages
