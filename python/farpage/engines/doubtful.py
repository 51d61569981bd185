"""Keys whose put was not answered: a node may have the page, and the engine was told that it has
not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy

from farpage._library import KEY_BYTES
from farpage.errors import FarpageError

if TYPE_CHECKING:
    from farpage.client import Client
    from farpage.engines.loop_thread import LoopThread

MOST = 1 << 16  # keys


class Doubtful:
    """They are not there for this engine until they are removed, which is tried again whenever one
    of them is asked for, or put again. The thread of `loop` uses it."""

    def __init__(self, loop: LoopThread, timeout_s: float) -> None:
        self._loop, self._timeout_s = loop, timeout_s
        self._keys: set[bytes] = set()
        self._is_removing = False

    @property
    def is_full(self) -> bool:
        """Then nothing more is put until the nodes answer."""
        return len(self._keys) >= MOST

    def put(self, keys: Any, good: Any, unanswered: Any) -> None:
        """What became of pages that were put."""
        if self._keys:
            self.forget(keys[good])
        self._keys.update(_each(keys[unanswered]))

    def forget(self, keys: Any) -> None:
        self._keys.difference_update(_each(keys))

    def certain(self, client: Client, keys: Any) -> Any:
        """Of each key, whether it can be trusted."""
        if not self._keys:
            return numpy.ones(len(keys), bool)
        certain = numpy.array([key not in self._keys for key in _each(keys)], bool)
        if not certain.all() and not self._is_removing:
            self._is_removing = True
            self._loop.begin(lambda: self._remove(client, list(self._keys)))
        return certain

    async def _remove(self, client: Client, keys: list[bytes]) -> None:
        try:
            await client.remove(keys, timeout_s=self._timeout_s)
            self._keys.difference_update(keys)
        except FarpageError:
            pass
        finally:
            self._is_removing = False


def _each(keys: Any) -> Iterable[bytes]:
    packed = keys.tobytes()
    return (packed[place:place + KEY_BYTES] for place in range(0, len(packed), KEY_BYTES))
