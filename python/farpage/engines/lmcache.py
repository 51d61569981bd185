"""LMCache's L2, whose pages lie on memory nodes, in two forms, each of which has its own pages:

    {"type": "plugin", "module_path": "farpage.engines.lmcache", "class_name": "FarpageAdapter",
     "adapter_params": {"node": "/run/farpage/node.sock"}}
    {"type": "native_plugin", "module_path": "farpage.engines.lmcache",
     "class_name": "FarpageConnector", "adapter_params": {"node": "/run/farpage/node.sock"}}

The first registers LMCache's L1 once, the second each buffer for each operation. docs/engines.md
explains the settings. LMCache 0.5.6.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import ctypes
import functools
import itertools
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Optional

import lmcache  # type: ignore[import]
import numpy
from lmcache.v1.distributed.l2_adapters import native_connector_l2_adapter  # type: ignore[import]

import farpage
from farpage.engines import doubtful
from farpage.engines.connection import Connection
from farpage.engines.doubtful import Doubtful
from farpage.engines.figures import Figures, publisher
from farpage.engines.lookups import is_any_late
from farpage.engines.namespaces import page_space, weights_digest
from farpage.engines.settings import check, check_version, refuse_others
from farpage.engines.worth import Worth
from farpage.errors import Code, FarpageError
from farpage.loop_thread import LoopThread
from farpage.verdicts import Reason, Verdict

GIB = 1 << 30
RELEASE_S = 0.001  # between looks at memory that may still be written after a deadline
_log = logging.getLogger("farpage")
_os: Any = os  # Python 3.10 and later have eventfd
# Of the call to LMCache's adapter that is under way: what it says of each object, where it says it.
_layouts: contextvars.ContextVar[Sequence[str]] = contextvars.ContextVar("layouts", default=())

Kind = tuple[str, int, int]  # of a key: its model, rank and group of layers
Answer = tuple[int, bool, str, list[bool]]  # which operation, whether it is well, why not, each key
Work = Callable[[farpage.Client, Any, float], Awaitable[Any]]  # with the keys, and seconds left


def warn_of_what_keys_lack(model: str, **untold: str) -> None:
    """One line, if the operator left out what LMCache does not tell."""
    missing = [name for name, value in {"model": model, **untold}.items() if not value]
    if missing:
        _log.warning("farpage: adapter_params lacks %s, which LMCache does not tell: servers that differ there, as in other weights below the model's "
                     "name, serve each other's KV. Set them (docs/engines.md)", ", ".join(missing))
    elif not os.path.exists(model) and not weights_digest(model):
        _log.warning("farpage: \"model\" is %r, no folder on this host and no model in the hub's cache: servers with other weights below this name serve "
                     "each other's KV. Set it to the folder (docs/engines.md)", model)


class FarpageConnector:
    """What `native_plugin` wraps. Any thread may call it, and no call waits but `close()`.

    Each operation is answered in time, with a boolean for each key: a get and a question by
    `timeout_ms`, a set and a delete by `store_timeout_ms`; and not before its memory is LMCache's
    own again.
    """

    def __init__(self, *, timeout_ms: float = 200, store_timeout_ms: float = 5000, store_bytes: int = GIB, start_ms: float = 2500,
                 model: str = "", dtype: str = "", layout: str = "", chunk_tokens: int = 0, engine: str = "", salt: str = "",
                 cost_model: bool = False, prefill_tokens_per_s: float = 0, allow_untested: bool = False, l1_memory: Any = None,
                 tells_types: bool = False, **settings: Any) -> None:
        check(timeout_ms=timeout_ms, store_timeout_ms=store_timeout_ms, store_bytes=store_bytes, start_ms=start_ms, model=model, dtype=dtype, layout=layout,
              chunk_tokens=chunk_tokens, engine=engine, salt=salt, cost_model=cost_model, prefill_tokens_per_s=prefill_tokens_per_s,
              allow_untested=allow_untested, **settings)
        refuse_others("FarpageAdapter" if tells_types else "FarpageConnector", settings)
        check_version("LMCache", lmcache.__version__, allow_untested)
        warn_of_what_keys_lack(model, engine=engine, layout=layout, **({} if tells_types else {"dtype": dtype}))
        # LMCache's own key names model, rank, group, content and tenant.
        self._space = page_space(engine="lmcache", version=lmcache.__version__, model=model, dtype=dtype, layout=layout,
                                 block_tokens=chunk_tokens, ranks={}, salt=salt, above=engine)
        self._load_s, self._store_s, self._store_bytes = timeout_ms / 1000, store_timeout_ms / 1000, store_bytes
        self.figures = Figures(publisher("lmcache"))
        # Without the tokens of a chunk nothing says what computing it costs.
        self._worth = Worth(self.figures, is_on=cost_model, tokens_per_s=prefill_tokens_per_s if chunk_tokens else 0)
        self._chunk_tokens, self._page_bytes = chunk_tokens, 0  # as of the last key that moved
        self._storing_bytes = 0
        self._numbers = itertools.count()
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._answers: list[Answer] = []
        self._fd = int(_os.eventfd(0, _os.EFD_NONBLOCK | _os.EFD_CLOEXEC))  # -1: closed
        self._loop = LoopThread("farpage-lmcache")
        self._doubtful = Doubtful(self._loop, self._store_s)
        self._connection = Connection(settings, lambda client: None if l1_memory is None else client.register(l1_memory), self._space)
        self._connection.wait_first(start_ms / 1000)

    @property
    def counts(self) -> collections.Counter[str]:
        """Keys, by their end."""
        return self.figures.of("pages")

    # ---- What LMCache calls

    def event_fd(self) -> int:
        return self._fd

    def submit_batch_get(self, keys: Sequence[str], memoryviews: Sequence[Any]) -> int:
        return self._submit("load", keys, self._load_s, lambda *left: self._load(list(keys), list(memoryviews), *left))

    def submit_batch_set(self, keys: Sequence[str], memoryviews: Sequence[Any]) -> int:
        return self._submit("store", keys, self._store_s, lambda *left: self._store(list(memoryviews), *left))

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        return self._submit("lookup", keys, self._load_s, lambda *left: self._exists(list(keys), *left))

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        return self._submit("delete", keys, self._store_s, self._delete)

    def drain_completions(self) -> list[Answer]:
        """What has ended since the last call. LMCache polls the descriptor, and leaves it to us to
        read it."""
        self._leave_to_the_parent()
        with self._lock:
            if self._answers and self._fd >= 0:
                _os.eventfd_read(self._fd)
            answers, self._answers = self._answers, []
        return answers

    def why_no_node(self) -> str:
        """Empty once a node has answered."""
        if self._fd < 0:
            return "the adapter is closed"
        return "" if self._connection.client is not None else self._connection.why_not

    def close(self) -> None:
        """Returns with nothing in flight. In the child of a fork the parent keeps what it has."""
        self._leave_to_the_parent()
        self._loop.close()
        self._connection.close()
        with self._lock:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # ---- Operations

    def _submit(self, what: str, keys: Sequence[str], timeout_s: float, work: Work) -> int:
        number, until_s, layouts = next(self._numbers), time.monotonic() + timeout_s, _layouts.get()
        # No key of LMCache's has a byte 0.
        names = [f"{key}\0{layout}" for key, layout in zip(keys, layouts)] if layouts else list(keys)
        if not self._loop.submit(lambda: self._run(what, number, names, until_s, work)):
            self._answer(number, False, "it is closed", [False] * len(names))
        return number

    async def _run(self, what: str, number: int, names: list[str], until_s: float, work: Work) -> None:
        good, why = [False] * len(names), ""
        client = self._connection.client
        if client is None:
            why = self._connection.why_not  # of which the log tells already
            self.figures.add("pages", f"{what} without a node", len(names))
        else:
            try:
                good = (await work(client, self._space.keys(names), max(0.0, until_s - time.monotonic()))).tolist()
            except Exception as error:  # LMCache hears of keys that failed, and of no exception
                why = str(error) if isinstance(error, FarpageError) else repr(error)
                self._count(f"{what} refused", len(names), why)
        self._answer(number, all(good) if what == "store" else not why, why, good)

    def _leave_to_the_parent(self) -> None:
        """In the child of a fork: the descriptor tells the parent's threads what they have to do,
        and the lock may be held by a thread that is missing here."""
        if self._pid != os.getpid():
            self._pid, self._fd, self._lock = os.getpid(), -1, threading.Lock()

    def _answer(self, number: int, is_well: bool, why: str, good: list[bool]) -> None:
        self._leave_to_the_parent()
        with self._lock:
            if not self._answers and self._fd >= 0:
                _os.eventfd_write(self._fd, 1)
            self._answers.append((number, is_well, why, good))

    def _tokens(self, names: Sequence[str]) -> int:
        """Of their chunks: each worker and group of layers has a key of its own for a chunk."""
        return self._chunk_tokens * len({name.split("@")[3] for name in names if name.count("@") >= 3})

    async def _load(self, names: list[str], memory: list[Any], client: farpage.Client, keys: Any, left_s: float) -> Any:
        certain = self._doubtful.certain(client, keys)  # also if that ends meanwhile
        ticket = client.fetch(keys, memory, timeout_s=left_s)
        try:
            verdicts = await ticket
        finally:
            await _release(ticket)
        good = verdicts["verdict"] == Verdict.READY
        length, took_s = self._moved("load", "ready", memory, good), float(verdicts["took_ns"].max(initial=0)) / 1e9
        for reason, pages in collections.Counter(verdicts["reason"][~good].tolist()).items():
            self.figures.add("pages", Reason(reason).name.lower(), pages)
        self._took("load", took_s, is_any_late(verdicts["reason"].tolist()))
        if names:
            self._worth.loaded(length, self._tokens([name for name, is_good in zip(names, good) if is_good]), took_s)
        return good & certain & self._doubtful.certain(client, keys)

    async def _exists(self, names: list[str], client: farpage.Client, keys: Any, left_s: float) -> Any:
        certain = self._doubtful.certain(client, keys)
        verdicts = await client.exists(keys, timeout_s=left_s)
        good = verdicts["verdict"] == Verdict.READY
        self.figures.add("pages", "found", int(good.sum()))
        self._took("lookup", float(verdicts["took_ns"].max(initial=0)) / 1e9, is_any_late(verdicts["reason"].tolist()))
        good &= certain & self._doubtful.certain(client, keys)
        length = len(good) if good.all() else int(good.argmin())  # of what LMCache can use
        if length and not self._worth.is_worth(self._tokens(names[:length]), length * self._page_bytes):
            self.figures.add("pages", "slower", int(good.sum()))
            good[:] = False
        return good

    async def _store(self, memory: list[Any], client: farpage.Client, keys: Any, left_s: float) -> Any:
        length, begun_s = sum(each.nbytes for each in memory), time.monotonic()
        if self._storing_bytes and self._storing_bytes + length > self._store_bytes:
            self._count("dropped", len(keys), "stores come faster than the nodes take them")
            return numpy.zeros(len(keys), bool)
        if not self._doubtful.has_room(client):
            self._count("dropped in doubt", len(keys), f"{doubtful.MOST:,} stores had no answer; storing resumes when the nodes have removed those pages")
            return numpy.zeros(len(keys), bool)
        self._storing_bytes += length
        try:
            ticket = client.put(keys, memory, timeout_s=left_s)
            try:
                codes = (await ticket)["code"]
            finally:
                await _release(ticket)
        finally:
            self._storing_bytes -= length
        good, unanswered = codes == Code.OK, codes == Code.TIMEOUT
        self._moved("store", "stored", memory, good)
        for code, pages in collections.Counter(codes[~good].tolist()).items():
            why = too_long(memory, client) if code == Code.INVALID else ""
            self._count(f"not stored: {Code(code).name.lower()}", pages, why or ticket.why())
        self._took("store", time.monotonic() - begun_s, bool(unanswered.any()))
        self._doubtful.put(keys, good, unanswered)
        return good & self._doubtful.certain(client, keys)

    async def _delete(self, client: farpage.Client, keys: Any, left_s: float) -> Any:
        await self._doubtful.remove(client, keys, left_s)
        return numpy.ones(len(keys), bool)

    def _count(self, what: str, pages: int, why: str) -> None:
        """The log has one line of each thing that goes wrong, and the counts have all."""
        if not self.counts[what]:
            _log.warning("farpage: %s: %s", what, why)
        self.figures.add("pages", what, pages)

    def _moved(self, operation: str, well: str, memory: list[Any], good: Any) -> int:
        """How many bytes were loaded or stored."""
        length = sum(each.nbytes for each, is_good in zip(memory, good) if is_good)
        self._page_bytes = memory[-1].nbytes if memory else self._page_bytes
        self.figures.add("pages", well, int(good.sum()))
        self.figures.add("bytes", operation, length)
        return length

    def _took(self, operation: str, seconds: float, is_late: bool) -> None:
        self.figures.add("seconds", operation, seconds)
        if is_late:
            self.figures.add("stalls", operation)


def too_long(memory: Sequence[Any], client: farpage.Client) -> str:
    """What to do about objects that the nodes' pages do not hold; "": they do."""
    longest = max(each.nbytes for each in memory)
    if longest <= client.page_bytes:
        return ""
    return (f"LMCache's objects have {longest} bytes, and the nodes' pages {client.page_bytes}: start the nodes with --page-bytes {longest}, or "
            f"LMCache with a smaller --chunk-size")


async def _release(ticket: farpage.Ticket) -> None:
    while not ticket.released:
        await asyncio.sleep(RELEASE_S)


def _kind(key: Any) -> Kind:
    return key.model_name, key.kv_rank, key.object_group_id


@functools.lru_cache(maxsize=1024)
def _text(shapes: tuple[tuple[int, ...], ...], types: tuple[Any, ...]) -> str:
    return ";".join(f"{kind}:{'x'.join(map(str, shape))}" for shape, kind in zip(shapes, types))


def _of_object(each: Any) -> str:
    meta = each.metadata
    return _text(tuple(map(tuple, meta.shapes or [meta.shape])), tuple(meta.dtypes or [meta.dtype]))


class Layouts:
    """What LMCache says of its objects beside their keys: shapes and types, without which bytes of
    one length mean something else. A text for each object: of a look-up it is the one that LMCache
    tells with it, unless objects of that kind have moved and none had it: LMCache's serde moves
    others than it looks up. `dtype`: what the operator says of the numbers. Any thread may use it.
    """

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self._moved: set[tuple[Kind, str]] = set()
        self._last: dict[Kind, str] = {}

    def of_objects(self, keys: Sequence[Any], objects: Sequence[Any]) -> list[str]:
        """Of objects that are stored or loaded."""
        layouts = [_of_object(each) for each in objects]
        for kind, layout in {(_kind(key), layout) for key, layout in zip(keys, layouts)}:
            if "uint8" in layout and not self._dtype:
                self._dtype = "uint8"
                _log.warning("farpage: LMCache's objects are bytes, of which it does not say what they are: servers with other formats of fp8, or with a "
                             "serde over other types, serve each other's KV. Set \"dtype\" in adapter_params, as in \"fp8_e4m3\" (docs/engines.md)")
            self._moved.add((kind, layout))
            self._last[kind] = layout
        return layouts

    def of_keys(self, keys: Sequence[Any], told: Mapping[int, Any]) -> list[str]:
        """Of objects that are looked up or deleted. `told`: by group of layers."""
        found: dict[Kind, str] = {}
        for key in keys:
            kind = _kind(key)
            if kind not in found:
                desc = told.get(kind[2])
                layout = "" if desc is None else _text(tuple(map(tuple, desc.shapes)), tuple(desc.dtypes))
                found[kind] = layout if (kind, layout) in self._moved else self._last.get(kind, layout)
        return [found[_kind(key)] for key in keys]


class FarpageAdapter(native_connector_l2_adapter.NativeConnectorL2Adapter):  # type: ignore[misc]
    """The form `plugin`: LMCache's L1 is registered once, and the shapes and types that LMCache
    says of its objects are in their keys."""

    def __init__(self, params: Mapping[str, Any], l1_memory_desc: Optional[Any] = None) -> None:
        settings = dict(params)
        most_gb = settings.pop("max_capacity_gb", 0)
        l1_memory = None
        if l1_memory_desc is not None:
            l1_memory = numpy.ctypeslib.as_array((ctypes.c_uint8 * l1_memory_desc.size).from_address(l1_memory_desc.ptr))
        self._connector, self._objects = FarpageConnector(l1_memory=l1_memory, tells_types=True, **settings), Layouts(settings.get("dtype", ""))
        super().__init__(self._connector, max_capacity_gb=most_gb)

    def submit_store_task(self, keys: list[Any], objects: list[Any]) -> Any:
        return _told(self._objects.of_objects(keys, objects), super().submit_store_task, keys, objects)

    def submit_load_task(self, keys: list[Any], objects: list[Any]) -> Any:
        return _told(self._objects.of_objects(keys, objects), super().submit_load_task, keys, objects)

    def submit_lookup_and_lock_task(self, keys: list[Any], group_layout_descs: dict[int, Any]) -> Any:
        return _told(self._objects.of_keys(keys, group_layout_descs), super().submit_lookup_and_lock_task, keys, group_layout_descs)

    def delete(self, keys: list[Any]) -> None:
        _told(self._objects.of_keys(keys, {}), super().delete, keys)

    def report_status(self) -> dict[str, Any]:
        return {**super().report_status(), "type": "farpage", "why_no_node": self._connector.why_no_node(), **self._connector.figures.status()}


def _told(layouts: Sequence[str], call: Callable[..., Any], *arguments: Any) -> Any:
    """LMCache's class calls the connector within `call`."""
    token = _layouts.set(layouts)
    try:
        return call(*arguments)
    finally:
        _layouts.reset(token)
