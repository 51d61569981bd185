"""FarpageConnector under vLLM's own scheduler, over a node that comes and goes (endurance_case.py).
Runs in an environment with vLLM (scripts/test-engines)."""

import pathlib
import sys
import tempfile
import unittest

import endurance_case
from endurance_case import LOAD_S, STORE_S, farpage

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "connector"))
import tiny_llama  # noqa: E402
import vllm_numbered  # noqa: E402
from vllm.v1.core.sched.scheduler import RequestStatus  # noqa: E402


class Subject:
    """One engine stores, and the other loads: it would store what it had to compute.

    A request that is aborted once its blocks were looked up, while they come, is `exists`.
    """

    hides_failed_stores = False

    def __init__(self, storing, loading):
        self.storing, self.loading = storing, loading

    def store(self, numbers):
        return [self.storing.store(numbers)] * len(numbers)

    def load(self, numbers):
        return self.loading.load(numbers)

    def exists(self, numbers):
        engine = self.loading.engine
        self.loading.evict()
        requests = [engine.add(vllm_numbered.prompt(number)) for number in numbers]
        known = engine.connector._scheduler._requests
        engine.step()
        while any(each.ticket is not None for each in known.values()):
            engine.step()
        found = [request.request_id in known and known[request.request_id].found > 0 for request in requests]
        engine.scheduler.finish_requests([request.request_id for request in requests if not request.is_finished()], RequestStatus.FINISHED_ABORTED)
        return found

    def remove(self, numbers):
        """vLLM has no such call: the node evicts them."""
        client = self.storing.worker.connection.client
        if client is None:
            return False
        try:
            for number in numbers:
                client.remove(self.storing.keys(number), timeout_s=STORE_S).wait()
        except farpage.FarpageError:
            return False
        return True

    def evict(self):
        """Both do before they begin."""


class ConnectorEnduranceCase:
    """For an EnduranceCase that says in `pages` what a page holds."""

    OPERATIONS = 75
    page_bytes = vllm_numbered.PAGE_BYTES

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = tiny_llama.save_config(pathlib.Path(folder.name) / "model")

    def subjects(self, address):
        self.engines = [vllm_numbered.Numbered(self.model, address, role, connects=False, pages=self.pages, timeout_ms=1000 * LOAD_S, store_timeout_ms=1000 * STORE_S)
                        for role in ("kv_producer", "kv_consumer")]
        return [Subject(*self.engines)]

    def close_all(self):
        for engine in self.engines:
            engine.close()

    def regions(self):
        clients = [engine.worker.connection.client for engine in self.engines]
        return sum(len(client._regions._sorted[1]) for client in clients if client is not None)


class BlocksEnduranceTest(ConnectorEnduranceCase, endurance_case.EnduranceCase):
    pages = "block"


class LayersEnduranceTest(ConnectorEnduranceCase, endurance_case.EnduranceCase):
    pages = "layer"


if __name__ == "__main__":
    unittest.main()
