"""vLLM's tier under vLLM's own manager, over a node that comes and goes (endurance_case.py). Runs
in an environment with vLLM (scripts/test-engines)."""

import unittest

import endurance_case
import vllm_manager
from endurance_case import LOAD_S, STORE_S, farpage


class Subject:
    """The manager's CPU tier has 8 chunks, so that most loads are promotions from the node. The
    manager is told nothing of where a page comes from, and each is compared.

    A request that looks pages up and is finished before they came is `exists`.
    """

    hides_failed_stores = False  # the CPU tier has it

    def __init__(self, engine):
        self.engine = engine

    def wait_until_idle(self):
        assert self.engine.idle(), "jobs have no end"

    def store(self, numbers):
        self.wait_until_idle()  # chunks that are read by stores cannot be evicted
        engine, context = self.engine, self.engine.request()
        names = {vllm_manager.key(number): number for number in numbers}
        with engine.lock:
            prepared = engine.manager.prepare_store(list(names), context)
            # What the CPU tier has is not stored again.
            if prepared is not None and prepared.keys_to_store:
                for name, chunk in zip(prepared.keys_to_store, prepared.store_spec.chunk_ids):
                    engine.view[chunk][:vllm_manager.CHUNK_BYTES] = vllm_manager.content(names[name])
                engine.manager.complete_store(prepared.keys_to_store, context, True)
        engine.finish(context)
        self.wait_until_idle()
        return [True] * len(numbers)

    def load(self, numbers):
        return self.engine.load(numbers)

    def exists(self, numbers):
        engine = self.engine
        context = engine.request()
        keys = [vllm_manager.key(number) for number in numbers]
        for _ in range(3):
            with engine.lock:
                found = [engine.manager.lookup(each, context) for each in keys]
            engine.step()
        engine.finish(context)
        return [each is vllm_manager.HIT for each in found]

    def remove(self, numbers):
        """vLLM has no such call: the node and the CPU tier evict them."""
        engine = self.engine
        client = engine.tier._connection.client
        self.evict()
        if client is None:
            return False
        try:
            client.remove(engine.tier._space.keys([vllm_manager.key(number) for number in numbers]), timeout_s=STORE_S).wait()
        except farpage.FarpageError:
            return False
        return True

    def evict(self):
        self.wait_until_idle()
        self.engine.evict()


class VllmEnduranceTest(endurance_case.EnduranceCase):
    page_bytes = 2 * vllm_manager.CHUNK_BYTES  # of two ranks

    def subjects(self, address):
        self.engine = vllm_manager.Engine(self, node=address, timeout_ms=1000 * LOAD_S, store_timeout_ms=1000 * STORE_S)
        return [Subject(self.engine)]

    def close_all(self):
        self.engine.close()

    def regions(self):
        return len(self.engine.tier._connection.client._regions._sorted[1])


if __name__ == "__main__":
    unittest.main()
