"""A memory node inside this process."""

from __future__ import annotations

import os
import pathlib
import secrets
from typing import TYPE_CHECKING, Any

from farpage import client as clients

if TYPE_CHECKING:
    from farpage.client import Client, Setting

LONGEST_NAME = 32


def _state_path(name: str) -> pathlib.Path:
    """Where a node with a name keeps its epoch (client/embedded/user_folder.h)."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = f"{runtime}/farpage" if runtime.startswith("/") else f"/tmp/farpage-{os.geteuid()}"
    return pathlib.Path(folder, f"{name}.state")


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
        self.name = name
        # Which nobody guesses: clients of this process reach it by a name too.
        own = secrets.token_hex(LONGEST_NAME // 2) if name is None else name
        self._settings: dict[str, Setting] = {"name": own, "pool_bytes": pool_bytes, "page_bytes": page_bytes}
        try:
            self._client = self.open(staging_bytes=0, lanes=1)
        finally:
            if name is None:  # no later run has this name: what the node writes there goes with it
                _state_path(own).unlink(missing_ok=True)

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
