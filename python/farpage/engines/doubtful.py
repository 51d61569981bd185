"""Keys whose put was not answered: a node may have the page, and the engine was told that it has
not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy

from farpage._library import KEY_BYTES
from farpage.engines.guard import tell
from farpage.errors import FarpageError

if TYPE_CHECKING:
    from farpage.client import Client
    from farpage.loop_thread import LoopThread

MOST = 1 << 16  # keys


class Doubtful:
    """They are not there for this engine until they are removed, which is tried again whenever one
    of them is asked for, or a store finds no room for more. The thread of `loop` uses it."""

    def __init__(self, loop: LoopThread, timeout_s: float) -> None:
        self._loop, self._timeout_s = loop, timeout_s
        self._puts = 0  # that had keys without an answer
        self._keys: dict[bytes, int] = {}  # and which of these puts was the last
        self._is_removing = False

    def has_room(self, client: Client) -> bool:
        """Whether more may be put. If not, the removal of those that there are begins."""
        if len(self._keys) < MOST:
            return True
        self._begin_removal(client)
        return False

    def put(self, keys: Any, good: Any, unanswered: Any) -> None:
        """What became of pages that were put."""
        if self._keys:
            for key in _each(keys[good]):
                self._keys.pop(key, None)
        if unanswered.any():
            self._puts += 1
            self._keys.update(dict.fromkeys(_each(keys[unanswered]), self._puts))

    async def remove(self, client: Client, keys: Any, timeout_s: float) -> None:
        """Removes pages, as Client.remove() does. Those put meanwhile without an answer may have
        come after it: they stay."""
        before = self._puts
        await client.remove(keys, timeout_s=timeout_s)
        for key in _each(keys) if self._keys else ():
            if self._keys.get(key, before + 1) <= before:
                del self._keys[key]

    def certain(self, client: Client, keys: Any) -> Any:
        """Of each key, whether it can be trusted."""
        if not self._keys:
            return numpy.ones(len(keys), bool)
        certain = numpy.array([key not in self._keys for key in _each(keys)], bool)
        if not certain.all():
            self._begin_removal(client)
        return certain

    def _begin_removal(self, client: Client) -> None:
        if not self._is_removing:
            self._is_removing = True
            self._loop.begin(lambda: self._remove_all(client))

    async def _remove_all(self, client: Client) -> None:
        try:
            keys = numpy.frombuffer(b"".join(self._keys), numpy.uint8).reshape(-1, KEY_BYTES)
            await self.remove(client, keys, self._timeout_s)
        except FarpageError:  # it is tried again
            pass
        except Exception as error:
            tell(self, "remove", error)
        finally:
            self._is_removing = False


def _each(keys: Any) -> Iterable[bytes]:
    packed = keys.tobytes()
    return (packed[place:place + KEY_BYTES] for place in range(0, len(packed), KEY_BYTES))
