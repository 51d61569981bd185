"""The connector in a worker of vLLM's: its KV cache, and what comes there and goes from it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import farpage
from farpage.engines.connection import Connection
from farpage.engines.connector_loads import BlockLoads, LayerLoads
from farpage.engines.connector_memory import CacheBlocks, Staging
from farpage.engines.connector_plan import Blocks, Load, Plan, Settings, Shard
from farpage.engines.connector_stores import Stores
from farpage.engines.figures import Figures
from farpage.engines.guard import tell
from farpage.engines.settings import require_a_page


class WorkerSide:
    """vLLM's worker calls it from one thread, step by step: `start()`, `wait_layer()` of each
    layer, `save()`, `ended()`, `take_failed()`; with a draft model, which works last, `save()`
    comes at the end. Pages in `figures` are vLLM's blocks."""

    def __init__(self, settings: Settings, cache: CacheBlocks, space: farpage.KeySpace, figures: Figures, *, loads: bool, stores: bool) -> None:
        self._settings, self._cache, self.figures = settings, cache, figures
        is_layered = settings.pages == "layer"
        self.shard = Shard(space, len(cache.layers) if is_layered else 1)
        self._page_bytes = max(cache.lengths) if is_layered else cache.block_bytes
        if not is_layered and loads:
            require_a_page(cache.block_bytes, load_bytes=settings.load_bytes)
        if stores:
            require_a_page(cache.block_bytes, store_bytes=settings.store_bytes)
        self._layers = LayerLoads(cache, self.shard, settings.timeout_s, figures) if is_layered else None
        self._blocks = BlockLoads(cache.block_bytes, self.shard, settings.timeout_s, figures) if not is_layered and loads else None
        self._staging: Staging | None = None
        self._stores: Stores | None = None
        if stores:
            self._staging = Staging(settings.store_bytes, cache.block_bytes)
            self._stores = Stores(cache, self._staging, self.shard, settings.store_timeout_ms / 1000, figures)
        self._ending: set[str] = set()
        self._loaded: set[str] = set()
        self._failed: set[int] = set()
        self._announces = True
        client = dict(settings.client)
        if "ahead" in client:
            client["ahead"] = {"page_bytes": self._page_bytes, **client["ahead"]}
        self.connection = Connection(client, self._prepare, self.shard.space)

    def _prepare(self, client: farpage.Client) -> None:
        if client.page_bytes < self._page_bytes:
            raise farpage.InvalidError(f"pages of vLLM's have {self._page_bytes} bytes, and the nodes' pages {client.page_bytes}: start the nodes with "
                                       f"--page-bytes {self._page_bytes}, or set a smaller --block-size or \"pages\": \"layer\"")
        if self._staging is not None:
            self._staging.register(client)
        if self._layers is not None:
            self._cache.register(client)
        if self._blocks is not None:
            # Fetches into a GPU's memory take nothing that was fetched ahead.
            land = self._cache.staged if "ahead" in self._settings.client else self._cache.landing
            self._blocks.landing = land(client, self._settings.load_bytes)

    # ---- A step

    def start(self, plan: Plan) -> None:
        """Begins the step's loads."""
        client = self.connection.client
        self._guard("announce", lambda: self._announce(client, plan.announced))
        if self._layers is not None:
            self._begin(plan.loads, functools.partial(self._layers.begin, client, plan.loads))
        elif self._blocks is not None:
            for blocks in plan.loads:
                self._begin([blocks], functools.partial(self._blocks.begin, client, blocks))

    def _begin(self, loads: list[Blocks], begin: Callable[[], None]) -> None:
        if not self._guard("load", begin):
            self._loaded.update(blocks.request for blocks in loads if self._layers is None)
            self._failed.update(number for blocks in loads for number in blocks.numbers)

    def _announce(self, client: farpage.Client | None, names: list[bytes]) -> None:
        if client is None or not names or not self._announces:
            return
        try:
            client.announce(self.shard.keys(names).reshape(-1, 16), wanted_in_s=None)
        except farpage.InvalidError:  # no pages are fetched ahead
            self._announces = False
        except farpage.ExhaustedError:
            pass

    def wait_layer(self, name: str) -> None:
        """Blocks until the layer's blocks are there, or have failed."""
        if self._layers is not None:
            self._guard("wait", functools.partial(self._layers.wait, name))

    def save(self, plan: Plan) -> None:
        """Copies the step's stores."""
        stores = self._stores
        if stores is not None:
            for blocks in plan.stores:
                self._guard("store", functools.partial(stores.submit, self.connection.client, blocks))
        self._ending |= plan.ending

    def ended(self) -> tuple[set[str], set[str]]:
        """Requests whose blocks were read since they finished, and requests whose loads have
        ended."""
        if self._stores is not None:
            self._guard("stored", self._stores.poll)
        if self._blocks is not None:
            blocks = self._blocks
            self._guard("loaded", lambda: self._loaded.update(blocks.poll(self.connection.client)))
        ending, self._ending = self._ending, set()
        loaded, self._loaded = self._loaded, set()
        return ending, loaded

    def take_failed(self) -> set[int]:
        """Blocks that did not come, after `ended()`. Loads of layers end here: vLLM takes what the
        step computed unless it hears now that they failed."""
        if self._layers is not None:
            self._guard("end", self._layers.end)
        failed, self._failed = self._failed, set()
        for loads in (self._blocks, self._layers):
            if loads is not None:
                failed |= loads.take_failed()
        return failed

    def take_measured(self) -> dict[str, Load]:
        """By request, loads that have ended, after `take_failed()`."""
        return {name: load for loads in (self._blocks, self._layers) if loads is not None for name, load in loads.take_measured().items()}

    def _guard(self, what: str, call: Callable[[], object]) -> bool:
        """Whether it did well: vLLM's thread meets no exception."""
        try:
            call()
        except Exception as error:
            tell(self, what, error)
            return False
        return True

    def close(self) -> None:
        """Blocks until nothing touches vLLM's memory any more."""
        self.connection.close()
