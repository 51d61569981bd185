"""The client: puts pages on memory nodes, and fetches them, from and to memory of this process."""

from __future__ import annotations

import atexit
import ctypes
import json
import operator
import os
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Union

import numpy

from farpage import ticket as tickets
from farpage._library import EXHAUSTED, c, check
from farpage.accesses import accesses_of
from farpage.buffers import MIN_VERSION, Region, Regions, address_of, array_of
from farpage.columns import values_of
from farpage.counts import Statistics, statistics_of
from farpage.errors import FarpageTimeoutError, InvalidError
from farpage.fence import Fence, fetch_with, notification_of
from farpage.gpu_memory import gpu_blocks_of, gpu_memory_of
from farpage.keys import KeySpace, keys_of
from farpage.loops import completions_here
from farpage.streams import put_behind
from farpage.ticket import Operation, Ticket, microseconds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from farpage.keys import Keys

TIMEOUT_S = 1.0
EXIT_S = 5.0  # how long the interpreter's exit waits for operations
SLICE_S = 0.05
SPIN_US = 200  # the client's threads wait for the next call: Python comes back later than C++
LOOKS = 4  # at operations whose ticket was dropped, in each submission
FORKED = "this client was opened before the fork: the child opens one of its own"
_VERSION = numpy.dtype("u8")

Setting = Union[str, int, float, bool]


def _toml(value: Setting) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def settings_text(tables: Mapping[str, Mapping[str, Setting]]) -> str:
    """Tables of settings as TOML. What the library does not know it refuses by name."""
    lines: list[str] = []
    for table, settings in tables.items():
        lines.append(f"[{_toml(table)}]")
        lines += [f"{_toml(key)} = {_toml(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


class _Handle:
    """The library's client. It ends with the last call that uses it: none meets one that is gone.

    It is there before the call that opens it, so that no signal comes between them.
    """

    __slots__ = ("_as_parameter_", "_pid", "regions")

    def __init__(self) -> None:
        self._as_parameter_ = ctypes.c_void_p()  # null until it is open
        self._pid = os.getpid()
        self.regions: Regions | None = None

    def __del__(self) -> None:
        if self._pid != os.getpid():
            return
        kept: list[Region] = []
        try:
            if self.regions is not None:  # which the collector may take before the client
                kept = self.regions.forget()
        finally:
            try:
                c.close(self)
            finally:
                for region in kept:
                    region._array = None


def _client_of(call: Any, text: bytes) -> Client:
    handle = _Handle()
    try:
        check(call(text, ctypes.byref(handle._as_parameter_)))
        return Client(handle)
    except BaseException:  # whose traceback would keep it open
        del handle
        raise


def _opened_file(path: bytes, facts: KeySpace | None) -> Client:
    if facts is None:
        return _client_of(c.open_file, path)
    overrides = (ctypes.c_char_p * 1)(b"client.facts=" + _toml(facts.lines()).encode())
    return _client_of(lambda text, out: c.open_overridden(text, overrides, 1, out), path)


def _path_of(config: str | os.PathLike[str]) -> bytes:
    try:
        path = os.fsencode(config)
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidError(f"config is no path of a file: {error}") from None
    if b"\0" in path:
        raise InvalidError(f"config is no path of a file: {config!r} has a null character")
    return path


def open(node: str | None = None, *, config: str | os.PathLike[str] | None = None, embedded: bool | Mapping[str, Setting] = False,
         facts: KeySpace | None = None, **settings: Setting | Mapping[str, Setting]) -> Client:
    """Opens a client, and blocks until a node has answered, for `connect_ms` (2,000) at most.

        farpage.open("/run/farpage.sock")                       # a node that serves alone
        farpage.open("tcp://10.0.0.1:7010", security={"token_file": "token"}, lanes=4)
        farpage.open(cluster={"nodes": "a=tcp://10.0.0.1:7010,b=tcp://10.0.0.2:7010"})
        farpage.open(etcd={"endpoints": "http://10.0.0.9:2379"})
        farpage.open(embedded={"pool_bytes": "1GiB"})           # a node in this process; or True
        farpage.open(config="client.toml")                      # all of it from a file
        farpage.open("/run/farpage.sock", ahead={"pages": 64})  # with pages fetched ahead

    Keyword arguments are the keys of docs/client.md: a mapping is a table, others are keys of
    [client]. `spin_us` is 200 unless it is given. `facts`: what this client's pages depend on, told
    to its nodes for `farpage status` and `farpage flush`; keys do not follow from it.

    InvalidError: the settings; the sentence names the key. NotFoundError: there is no such file.
    UnavailableError, FarpageTimeoutError: no node answers. DeniedError: token or certificate.
    """
    is_embedded = isinstance(embedded, Mapping) or bool(embedded)
    if facts is not None and not isinstance(facts, KeySpace):
        raise InvalidError("facts are no KeySpace: give farpage.KeySpace(model=..., dtype=...)")
    if config is not None:
        if node is not None or is_embedded or settings:
            raise InvalidError("a file has all settings: give config alone, or settings alone")
        return _opened_file(_path_of(config), facts)
    tables: dict[str, dict[str, Setting]] = {"client": {"spin_us": SPIN_US}}
    if node is not None:
        tables["client"]["node"] = node
    if is_embedded:
        tables["client"]["embedded"] = True
        tables["embedded"] = dict(embedded) if isinstance(embedded, Mapping) else {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            tables[name] = dict(value)
        else:
            tables["client"][name] = value
    if facts is not None:
        tables["client"]["facts"] = facts.lines()
    try:
        text = settings_text(tables).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidError(f"a setting is neither text nor a number: {error}") from None
    return _client_of(c.open, text)


class Client:
    """A client of memory nodes; `farpage.open()` makes it. Any thread may use it.

    Keys are 16 bytes each: one as `bytes`, or several as a list of them or as an array (pages, 16)
    of uint8 (`farpage.KeySpace`, `farpage.page_key()`). Memory is given

    - with one key by itself: as any buffer (bytes-like, NumPy array, CPU tensor), which is the
      page;
    - with n keys: as an array whose first dimension is n, as a buffer of one dimension that is cut
      into n pages, as a list of n buffers, or as `Region.pages()`.

    Bytes are never copied in Python. A buffer within a region (`register()`) costs nothing more;
    any other is registered for the operation alone. Either stays alive until the operation is
    released. Pages must lie without gaps in themselves; rows may have gaps between them. Read-only
    buffers can only be put.

    Operations return a Ticket at once, and every page has its answer after `timeout_s` seconds.
    They fail with InvalidError (keys, memory), ExhaustedError (too many under way) and
    RegisteredError (memory that overlaps other registered memory): then nothing was begun.
    """

    def __init__(self, handle: _Handle) -> None:
        self._handle: _Handle | None = None
        self._pid = os.getpid()
        self._why_not = ""
        self._regions = Regions(self)
        self._answers = threading.Lock()  # one thread at a time reads a ticket's answers
        self._operations: dict[int, Operation] = {}  # that may still use their memory
        self._let_gone: dict[int, Operation] = {}  # those of them whose ticket has gone
        self._in_turn: Iterator[int] = iter(())  # keys of these to look at
        handle.regions = self._regions
        _CLIENTS.add(self)
        self._handle = handle

    # ---- Operations

    def fetch(self, keys: Keys, memory: Any, *, min_version: ArrayLike | None = None, timeout_s: float | None = TIMEOUT_S,
              fence: Fence | None = None, stream: Any = None) -> Ticket:
        """Fetches pages into writable memory: `Ticket.wait()` gives an array of VERDICT. A page has
        the length of its memory, and is at least of `min_version`: one number, or one for each
        page. `fence` gets the verdicts for work on a GPU, and what is put on `stream` from then on
        waits for them there, as by `Fence.wait()`. After a fetch that fails, no page is ready."""
        if fence is None:
            if stream is not None:
                raise InvalidError("a stream waits at a fence: give one of Client.fence() too")
            return self._move(c.fetch, tickets.verdicts, keys, memory, min_version, timeout_s, is_written=True)
        return fetch_with(fence, stream, lambda: self._move(c.fetch, tickets.verdicts, keys, memory, min_version, timeout_s,
                                                            is_written=True, fence=fence))

    def put(self, keys: Keys, memory: Any, *, timeout_s: float | None = TIMEOUT_S, stream: Any = None) -> Ticket:
        """Stores pages: `Ticket.wait()` gives an array of PUT_RESULT. Do not write to the memory
        until then, and to a GPU's not before the ticket is released. Pages of a GPU's memory are
        what they are once the work has ended that is on `stream` now: of torch or CuPy, what has
        `__cuda_stream__()`, or a CUstream as a number (0: the default one). Without a stream that
        work has ended before the call. All pages lie in one GPU's memory, or all in the host's."""
        call = c.put if stream is None else put_behind(stream)
        return self._move(call, tickets.put_results, keys, memory, None, timeout_s, is_written=False)

    def exists(self, keys: Keys, *, timeout_s: float | None = TIMEOUT_S) -> Ticket:
        """Asks which pages are there: `Ticket.wait()` gives an array of VERDICT. A hint: a page may
        go."""
        return self._name(c.exists, tickets.verdicts, keys, timeout_s)

    def remove(self, keys: Keys, *, timeout_s: float | None = TIMEOUT_S) -> Ticket:
        """Removes pages: `Ticket.wait()` gives the number of keys that had one."""
        return self._name(c.remove, tickets.removed, keys, timeout_s)

    def leading(self, keys: Keys, *, timeout_s: float | None = TIMEOUT_S) -> int:
        """How many of the first keys have a page now: the length of a cached prefix, in pages.
        Blocks."""
        missing = self.exists(keys, timeout_s=timeout_s).wait()["verdict"] != 1
        return int(missing.argmax()) if missing.any() else len(missing)

    def flush(self, *, timeout_s: float | None = TIMEOUT_S) -> None:
        """Blocks until every put and remove that was submitted before has its results.
        FarpageTimeoutError: one has none by then, and goes on."""
        self._opened()
        until_us = microseconds(timeout_s) + int(time.monotonic() * 1e6)
        # farpage_flush() in slices, between which Python sees signals, would wait for ever newer
        # puts of other threads.
        for operation in list(self._operations.values()):
            if operation.is_write and not tickets.wait_done(operation, max(0, until_us - int(time.monotonic() * 1e6))):
                raise FarpageTimeoutError("puts or removes are under way still: flush again")

    # ---- Pages fetched ahead, with ahead={"pages": ...}

    def announce(self, keys: Keys, *, wanted_in_s: float | None = TIMEOUT_S) -> None:
        """These pages will be wanted within so many seconds: they are fetched ahead as there is
        room, and a fetch then copies them from this process's memory. Each stays until it is
        fetched, or withdrawn as often as announced, and by itself no longer than `ahead.linger_ms`
        after that time. Does not block, and neither do the other calls about pages fetched ahead:
        they take effect in their order, also with fetches. InvalidError: `ahead.pages` is 0.
        ExhaustedError: too much is under way."""
        wanted_in_us = microseconds(wanted_in_s, "a time")
        self._tell(c.announce, keys_of(keys)[0].copy(), wanted_in_us)

    def withdraw(self, keys: Keys) -> None:
        """What was announced is not wanted any more. Fails as `announce()` does."""
        self._tell(c.withdraw, keys_of(keys)[0].copy())

    def mark_milestones(self, keys: Keys) -> None:
        """These pages are worth coming back to: a word to `ahead.prefetcher`. Fails as `announce()`
        does."""
        self._tell(c.mark_milestones, keys_of(keys)[0].copy())

    def observe(self, keys: Keys, step: ArrayLike, *, head: ArrayLike = 0, category: ArrayLike = 0, mass: ArrayLike = 0, score: ArrayLike = 0,
                similarity: ArrayLike = 0, entropy: ArrayLike = 0, margin: ArrayLike = 0, mark: ArrayLike = 0) -> None:
        """A decode has accessed these pages in a step: all its accesses, in one call.
        `ahead.prefetcher` then has the pages fetched that it expects next. Fails as `announce()`
        does.

        Each is one number, or one for each key; 0 where the engine does not measure it. `step`: of
        the decode. `head`: counted through all layers; those from `ahead.heads` on are ignored.
        `category`: of the request, as the engine numbers them. `mass`: of the head's attention in
        this step, 0 to 1. `score`: how the engine ranks the page. `similarity`: the cosine between
        the step's query and the one before, -1 to 1. `entropy`: of the distribution that the step's
        token was drawn from, in nats. `margin`: between the logits of the two likeliest tokens.
        `mark`: a Mark.
        """
        self._tell(c.observe, accesses_of(keys, {"step": step, "head": head, "category": category, "mass": mass, "score": score,
                                                 "similarity": similarity, "entropy": entropy, "margin": margin, "mark": mark}))

    def _tell(self, call: Any, rows: Any, *more: int) -> None:
        check(call(self._opened(), address_of(rows) if len(rows) else None, len(rows), *more))

    # ---- Counts and memory

    def statistics(self) -> Statistics:
        """Counts of this client, each as of a moment ago. Does not block."""
        return statistics_of(self._opened())

    def register(self, buffer: Any) -> Region:
        """Registers a buffer without gaps, once for all pages in it, and keeps it alive until the
        region is closed. Costs system calls. RegisteredError: a part of it is registered
        already.

        A tensor on a GPU, or an object with a `__cuda_array_interface__` or a `__dlpack__()`, is
        used through `Region.pages()`: all pages of a fetch or a put in one GPU's memory, or all in
        the host's. No work on the GPU may still use their places when a fetch begins; once they are
        ready, work on any stream may. NotFoundError, UnavailableError: no driver, an old one, or no
        GPU."""
        self._opened()
        memory = gpu_memory_of(buffer)
        return self._regions.add(array_of(buffer)) if memory is None else self._regions.add_gpu(memory)

    def register_blocks(self, pieces: Sequence[Any]) -> Region:
        """Registers blocks that lie in a GPU's memory in pieces, as an engine's KV cache does: with
        `Region.blocks()` a page is a whole block. `pieces`: an array of each piece, such as a
        layer's K, in the order in which a page has their bytes. It is what `register()` takes of a
        GPU's, its first dimension counts blocks, and only between blocks it may have gaps. All have
        as many blocks, of the same length, the same step apart. Fails as `register()` does."""
        self._opened()
        return self._regions.add_blocks(gpu_blocks_of(pieces))

    def fence(self, device: int, pages: int) -> Fence:
        """What streams of a GPU, by its number in CUDA, wait at for fetches of at most so many
        pages. NotFoundError, UnavailableError: no driver, an old one, or no such GPU."""
        return Fence(self._opened(), device, pages)

    @property
    def page_bytes(self) -> int:
        """The longest page that the nodes take, in bytes."""
        return int(c.page_bytes(self._opened()))

    def _move(self, call: Any, answer: Callable[[Operation], Any], keys: Keys, memory: Any, min_version: ArrayLike | None,
              timeout_s: float | None, *, is_written: bool, fence: Fence | None = None) -> Ticket:
        self._opened()
        operation = Operation(self, is_write=not is_written)
        try:
            found, is_single = keys_of(keys)
            pages = self._regions.pages(operation.lent, memory, len(found), is_single)
            if is_written and pages.read_only and len(pages):
                raise InvalidError("the memory is read-only: fetch into a writable buffer")
            pages.name(found)
            if min_version is not None:
                pages.rows[:, MIN_VERSION] = values_of("min_version", min_version, len(found), _VERSION)
            ticket = self._submit(call, answer, pages.rows, operation, timeout_s, fence)
            if min_version is None:
                self._regions.spare(pages)
            return ticket
        except BaseException:  # whose traceback would keep the memory registered
            if not operation.has_begun:
                operation.end_lending()
            raise

    def _name(self, call: Any, answer: Callable[[Operation], Any], keys: Keys, timeout_s: float | None) -> Ticket:
        operation = Operation(self, is_write=answer is tickets.removed)
        return self._submit(call, answer, keys_of(keys)[0], operation, timeout_s)

    def _submit(self, call: Any, answer: Callable[[Operation], Any], rows: Any, operation: Operation, timeout_s: float | None,
                fence: Fence | None = None) -> Ticket:
        if self._let_gone:
            self._sweep()
        opened, timeout_us = self._opened(), microseconds(timeout_s)
        told, watch = None, None
        completions = completions_here()
        try:
            if completions is not None:
                watch = completions.watch()
            if watch is not None or fence is not None:
                told = ctypes.byref(notification_of(completions, watch, fence))
            arguments = (opened, address_of(rows) if len(rows) else None, len(rows), timeout_us, told, ctypes.byref(operation.handle))
            code = call(*arguments)
            if code == EXHAUSTED and self._let_gone:  # the place of one that is released, perhaps
                self._sweep_all()
                code = call(*arguments)
            check(code)
            self._operations[id(operation)] = operation
            return Ticket(operation, answer, watch)
        except BaseException:
            if completions is not None and watch is not None:
                completions.forget(watch)
            if operation.has_begun:  # a signal came behind the call: it goes on, without a ticket
                self._operations[id(operation)] = self._let_gone[id(operation)] = operation
            raise

    # ---- Ends

    def close(self) -> None:
        """Waits until every operation is released, ends all regions, and takes the client down.
        Tickets keep their answers. Closed already, or in the child of a fork: nothing."""
        if self._handle is None or not self._is_ours():
            return
        self._why_not = "the client is closed: open another"
        while self._operations:
            self._wait_for_operations(SLICE_S)
        self._handle = None  # with which the regions end

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is None or not self._is_ours():
            return
        try:
            warnings.warn(f"a client was not closed: {self!r}", ResourceWarning, stacklevel=1, source=self)
        finally:  # warnings may be errors
            self.close()

    def _opened(self) -> _Handle:
        handle = self._handle
        if handle is None or self._why_not:
            raise InvalidError(self._why_not)
        return handle

    def _refuse_fork(self) -> None:
        """Before any lock, also of what still answers when the client is closed."""
        if self._pid != os.getpid():
            raise InvalidError(FORKED)

    def _is_ours(self) -> bool:
        return self._pid == os.getpid() and not _IS_OVER

    def _let_go(self, operation: Operation) -> None:
        """Nobody holds the operation's ticket any more."""
        if not self._is_ours():
            return
        if c.ticket_released(operation) == 1:
            self._end(id(operation))
        else:
            self._let_gone[id(operation)] = operation

    def _end(self, key: int) -> None:
        self._operations.pop(key, None)
        self._let_gone.pop(key, None)  # last: what a signal leaves here, the next submission ends

    def _sweep(self) -> None:
        """Looks at a few in turn: a submission costs the same however many there are."""
        if not operator.length_hint(self._in_turn):
            self._in_turn = iter(list(self._let_gone))
        for _, key in zip(range(LOOKS), self._in_turn):
            operation = self._let_gone.get(key)
            if operation is not None and c.ticket_released(operation) == 1:
                self._end(key)

    def _sweep_all(self) -> None:
        for key, operation in list(self._let_gone.items()):
            if c.ticket_released(operation) == 1:
                self._end(key)

    def _end_let_gone(self, region: Region) -> None:
        """Waits for operations in a region whose tickets have gone: nobody else can."""
        for key, operation in list(self._let_gone.items()):
            if region in operation.lent:
                tickets.wait_released(operation, microseconds(None))
                self._end(key)

    def _wait_for_operations(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        for key, operation in list(self._operations.items()):
            left_s = until - time.monotonic()
            if tickets.wait_released(operation, microseconds(max(0, left_s))):
                self._end(key)
            elif left_s <= 0:
                return

    def _end_with_interpreter(self, until: float) -> None:
        if self._handle is None or not self._is_ours():
            return
        self._why_not = "the interpreter is exiting"
        while self._operations and (left_s := until - time.monotonic()) > 0:
            self._wait_for_operations(min(left_s, SLICE_S))
        if not self._operations:
            self.close()


_CLIENTS: weakref.WeakSet[Client] = weakref.WeakSet()
_IS_OVER = False


def _end_all() -> None:
    global _IS_OVER
    until = time.monotonic() + EXIT_S
    clients = list(_CLIENTS)
    try:
        for client in clients:
            client._end_with_interpreter(until)
    finally:  # Ctrl-C ends the wait
        for client in clients:
            if client._operations and client._is_ours():
                # What may still be written to outlives the interpreter.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        _IS_OVER = True


def _forked() -> None:
    for client in list(_CLIENTS):
        client._why_not = FORKED
        # Threads that had them may be missing here.
        client._answers = threading.Lock()
        client._regions.renew_lock()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forked)
