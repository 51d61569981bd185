"""SGLang's storage, called by three threads over one host pool, over a node that comes and goes
(endurance_case.py). Runs in an environment with SGLang (scripts/test-engines)."""

import unittest

import endurance_case
import torch
from endurance_case import BATCH, LOAD_S, STORE_S, TRASH, content, farpage
from sglang_engine import PAGE_TOKENS, Engine
from truth import assert_bytes

THREADS = 3
PAGE_BYTES = 128 << 10  # K and V of a page


class Subject:
    """A thread of SGLang's, with pages of its own in the host pool: half of them for stores, and
    half for loads."""

    hides_failed_stores = False  # a page that the node has all the same is whole, and right

    def __init__(self, engine, number):
        self.engine, self.storage, self.host = engine, engine.storage, engine.host
        self.places = torch.arange(2 * BATCH * PAGE_TOKENS) + number * 2 * BATCH * PAGE_TOKENS
        self.fill(self.places, None)

    def fill(self, places, number):
        shape = self.host.get_dummy_flat_data_page().shape
        page = torch.full((PAGE_BYTES,), TRASH, dtype=torch.uint8) if number is None else torch.from_numpy(content(number, PAGE_BYTES).copy())
        for place in places[::PAGE_TOKENS].tolist():
            self.host.set_from_flat_data_page(place, page.view(self.host.dtype).reshape(shape))

    def bytes_at(self, place):
        return self.host.get_data_page(place, flat=True).contiguous().view(torch.uint8).flatten().numpy()

    def split(self, numbers):
        """Where stores are, and where loads are."""
        tokens = len(numbers) * PAGE_TOKENS
        return self.places[:tokens], self.places[BATCH * PAGE_TOKENS:][:tokens]

    def names(self, numbers):
        return [f"{number:064x}" for number in numbers]

    def store(self, numbers):
        places, _ = self.split(numbers)
        for number, place in zip(numbers, places[::PAGE_TOKENS]):
            self.fill(place.reshape(1), number)
        stored = self.storage.batch_set_v1(self.names(numbers), places)
        self.fill(places, None)
        return stored

    def load(self, numbers):
        _, places = self.split(numbers)
        for place in self.places[BATCH * PAGE_TOKENS::PAGE_TOKENS].tolist():
            assert_bytes((self.bytes_at(place) == TRASH).all(), "memory that a load wrote after it had ended")
        loaded = self.storage.batch_get_v1(self.names(numbers), places)
        for number, place, is_loaded in zip(numbers, places[::PAGE_TOKENS].tolist(), loaded):
            assert_bytes(not is_loaded or (self.bytes_at(place) == content(number, PAGE_BYTES)).all(), number)
        self.fill(places, None)
        return loaded

    def exists(self, numbers):
        count = self.storage.batch_exists(self.names(numbers))
        return [place < count for place in range(len(numbers))]

    def evict(self):
        """It keeps none."""

    def remove(self, numbers):
        """SGLang has no such call: as when the node evicts them."""
        client = self.storage._client
        if client is None:
            return False
        try:
            client.remove(self.storage._pools["kv"].keys(self.names(numbers)), timeout_s=STORE_S).wait()
        except farpage.FarpageError:
            return False
        return True


class SglangEnduranceTest(endurance_case.EnduranceCase):
    def subjects(self, address):
        self.engine = Engine(node=address, timeout_ms=1000 * LOAD_S, store_timeout_ms=1000 * STORE_S)
        return [Subject(self.engine, number) for number in range(THREADS)]

    def close_all(self):
        self.engine.close()

    def regions(self):
        return len(self.engine.storage._client._regions._sorted[1])


if __name__ == "__main__":
    unittest.main()
