"""A memory node inside this process."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

from farpage import client as clients

if TYPE_CHECKING:
    from farpage.client import Client, Setting

_NUMBERS = itertools.count()


class Node:
    """A memory node inside this process: it serves this user's processes, over shared memory.

        with farpage.Node(pool_bytes="1GiB", page_bytes="2MiB") as node:
            client = node.open()

    Sizes are bytes, or text such as "64MiB": `pool_bytes` of all pages, `page_bytes` of the
    longest. Processes of one user that name the same node share it: in the first of them, whose
    sizes count. Without a name it is for this process alone. Its pages end with it. It fails as
    `farpage.open()` does.
    """

    def __init__(self, *, pool_bytes: int | str = "64MiB", page_bytes: int | str = "64KiB", name: str | None = None) -> None:
        self.name = f"python-{os.getpid()}-{next(_NUMBERS)}" if name is None else name
        self._settings: dict[str, Setting] = {"name": self.name, "pool_bytes": pool_bytes, "page_bytes": page_bytes}
        self._client = self.open(staging_bytes=0, lanes=1)

    def open(self, **settings: Any) -> Client:
        """A client of this node; `settings` are keys of [client] in docs/client.md. Close it before
        the node."""
        return clients.open(embedded=self._settings, **settings)

    def close(self) -> None:
        """Ends the node. What its clients ask for then is recompute (Reason.UNREACHABLE)."""
        self._client.close()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
