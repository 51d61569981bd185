"""Memory of pages: where it lies, who owns it, and which of it is registered."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from farpage._library import c, check
from farpage.errors import InvalidError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from farpage.client import Client

# farpage_page_t as six words: a row of them is filled and copied several times as fast as one of a
# structured type.
PAGE_WORDS = 6
PAGE_SIZE, KEY, DATA, BYTES, MIN_VERSION = 0, 1, 3, 4, 5  # a key has two
_WORDS: dict[str, Any] = {"dtype": numpy.uint64}  # arange() is typed without it
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
            raise InvalidError(f"the tensor is on {buffer.device}: pages move from and to CPU memory")
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
        raise InvalidError("the buffer is empty: a page has at least 1 byte")
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
    """Registered memory of a client: `Client.register()` makes it.

    It keeps its buffer alive until `close()`, or until the client is closed. Any thread may use it.
    """

    def __init__(self, regions: Regions, handle: int, array: NDArray[Any], address: int, length: int) -> None:
        self._regions, self._handle, self._array = regions, handle, array
        self.address = address  # of its first byte
        self.bytes = length
        self.read_only = not array.flags.writeable  # its pages can be put, and not fetched into
        # Registered for operations alone, and for how many.
        self._is_borrowed, self._uses = False, 0

    def pages(self, offsets: ArrayLike, page_bytes: int) -> Pages:
        """Pages of `page_bytes` bytes each that begin at the offsets, in bytes: what
        `Client.fetch()` and `Client.put()` take as memory, as often as you like. InvalidError: not
        within the region."""
        starts = numpy.atleast_1d(numpy.asarray(offsets))
        if starts.ndim != 1 or starts.dtype.kind not in "iu":
            raise InvalidError("offsets are whole numbers of bytes: a list, or an array of one dimension")
        if not 1 <= page_bytes <= self.bytes or (starts.size and not (0 <= starts.min() and starts.max() <= self.bytes - page_bytes)):
            raise InvalidError(f"pages of {page_bytes} bytes at these offsets do not lie within the region's {self.bytes} bytes")
        return Pages(rows_of(starts.astype(numpy.uint64) + numpy.uint64(self.address), page_bytes, starts.size), self.read_only, (self,))

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

    __slots__ = ("kept", "read_only", "rows")

    def __init__(self, rows: NDArray[Any], read_only: bool, kept: Sequence[Region]) -> None:
        self.rows, self.read_only, self.kept = rows, read_only, kept  # rows: (pages, PAGE_WORDS)

    def __len__(self) -> int:
        return len(self.rows)


def rows_of(addresses: Any, page_bytes: Any, count: int) -> NDArray[numpy.uint64]:
    rows = numpy.zeros((count, PAGE_WORDS), numpy.uint64)
    rows[:, PAGE_SIZE] = 8 * PAGE_WORDS
    rows[:, DATA] = addresses
    rows[:, BYTES] = page_bytes
    return rows


class Regions:
    """A client's registered memory, by address. Regions do not overlap.

    Who reads takes no lock: a change makes new lists.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock: Any = threading.RLock()  # which knows its owner; nobody takes it twice
        self._last: tuple[Any, Any] = (None, None)  # place and rows: engines come again and again
        self._ended: list[Region] = []  # one entry for each operation that needs them no more
        self._sorted: tuple[list[int], list[Region]] = ([], [])

    def _find(self, address: int, length: int) -> Region | None:
        starts, regions = self._sorted
        place = bisect.bisect_right(starts, address) - 1
        if place < 0:
            return None
        region = regions[place]
        return region if address + length <= region.address + region.bytes else None

    def _register(self, array: NDArray[Any], address: int, length: int, *, is_borrowed: bool = False) -> Region:
        handle = ctypes.c_void_p()
        check(c.register(self._client._opened(), address, length, ctypes.byref(handle)))
        assert handle.value is not None
        region = Region(self, handle.value, array, address, length)
        region._is_borrowed = is_borrowed  # before others see it
        starts, regions = self._sorted
        place = bisect.bisect(starts, address)
        self._sorted = ([*starts[:place], address, *starts[place:]], [*regions[:place], region, *regions[place:]])
        return region

    def _unregister(self, region: Region) -> None:
        check(c.unregister(region._handle))
        starts, regions = self._sorted
        place = regions.index(region)
        self._sorted = (starts[:place] + starts[place + 1:], regions[:place] + regions[place + 1:])
        region._handle = 0

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            self._give_back()
            yield
            self._give_back()
        self._try_to_give_back()

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
            region = self._ended.pop()
            region._uses -= 1
            if region._uses == 0 and region._handle:
                self._unregister(region)

    def add(self, array: NDArray[Any]) -> Region:
        address, length = _whole(array)
        with self._locked():
            return self._register(array, address, length)

    def remove(self, region: Region) -> None:
        self._client._end_let_gone(region)
        with self._locked():
            if region._handle:
                self._unregister(region)

    def borrow(self, array: NDArray[Any], address: int, length: int) -> Region:
        """The region that the memory lies in, or one for as long as operations use it."""
        region = self._find(address, length)
        if region is not None and not region._is_borrowed:
            return region
        with self._locked():
            region = self._find(address, length)
            if region is None:
                region = self._register(array, address, length, is_borrowed=True)
            region._uses += 1
            return region

    def forget(self) -> list[Region]:
        """The client ends them itself. What is returned must outlive that."""
        with self._lock:
            regions = self._sorted[1]
            for region in regions:
                region._handle = 0
            self._sorted = ([], [])
        return regions

    def pages(self, memory: Any, count: int, is_single: bool) -> Pages:
        """Where the pages of an operation lie. A page that is given by itself is the whole
        buffer."""
        if isinstance(memory, Pages):
            pages = memory
        elif isinstance(memory, (list, tuple)):
            pages = self._each(memory)
        else:
            pages = self._rows(memory, 1 if is_single else count, is_single)
        if len(pages) != count:
            self.end(pages)
            raise InvalidError(f"there are {count} keys, and memory for {len(pages)} pages")
        return pages

    def end(self, pages: Pages) -> None:
        self._end_use(pages.kept)

    def _end_use(self, regions: Iterable[Region]) -> None:
        """Takes no lock: it may run wherever an object goes, also in a thread that holds the
        lock."""
        self._ended += [region for region in regions if region._is_borrowed]
        self._try_to_give_back()

    def _each(self, buffers: Sequence[Any]) -> Pages:
        arrays = [array_of(buffer) for buffer in buffers]
        places = [_whole(array) for array in arrays]
        regions: list[Region] = []
        try:
            for array, (address, length) in zip(arrays, places):
                regions.append(self.borrow(array, address, length))
        except BaseException:
            self._end_use(regions)
            raise
        rows = rows_of([address for address, _ in places], [length for _, length in places], len(places))
        return Pages(rows, not all(array.flags.writeable for array in arrays), regions)

    def _rows(self, buffer: Any, count: int, is_single: bool) -> Pages:
        if isinstance(buffer, Region):
            raise InvalidError("a region says not where its pages are: give region.pages(offsets, page_bytes)")
        array = array_of(buffer)
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
        region = self.borrow(array, address, length)
        place = (address, stride, page_bytes, count)
        last = self._last
        if last[0] != place:
            addresses = numpy.arange(address, address + stride * count, stride, **_WORDS)
            last = self._last = (place, rows_of(addresses, page_bytes, count))
        return Pages(last[1], not array.flags.writeable, (region,))
