"""FarpageConnector in an engine of vllm_steps.py, for tests of pages that have numbers: each number
has a prompt, whose blocks are stored and loaded."""

import functools
import os
import pathlib
import sys

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "python"))
from program import wait_until  # noqa: E402
from truth import assert_tokens  # noqa: E402
from vllm_steps import BLOCK_TOKENS, LAYER_BYTES, Engine, expected  # noqa: E402

FORMS = ("block", "layer")
BLOCKS, LAYERS, TOKENS = 3, 3, 4  # of a prompt: whole blocks; of the model; that it generates
PAGE_BYTES = max(4096, LAYERS * LAYER_BYTES)  # the least that a node has
PATIENT_MS = 60_000


def prompt(number):
    """It shares no block with another, and what it generates fills none."""
    return [number % 1000, number // 1000, *(place * place % 900 for place in range(BLOCKS * BLOCK_TOKENS))]


@functools.cache
def answer(number):
    return expected(prompt(number), TOKENS, layers=LAYERS)


class Numbered:
    """`role`: that of vLLM. What it has in its own cache, it neither stores nor loads."""

    def __init__(self, model, address, role="kv_both", connects=True, **settings):
        settings = {"timeout_ms": PATIENT_MS, "store_timeout_ms": PATIENT_MS, **settings}
        self.engine = Engine(model, layers=LAYERS, node=address, transfer={"kv_role": role}, **settings)
        self.worker = self.engine.workers[0].connector._worker
        self.connections = [each for each in self.engine.connections if each is not None]
        if connects and not wait_until(lambda: all(each.client is not None for each in self.connections)):
            raise AssertionError([each.why_not for each in self.connections])

    def run(self, numbers):
        """How many tokens of each vLLM took from the connector; the answers are right."""
        tokens, cached = self.engine.run([prompt(number) for number in numbers], TOKENS)
        assert_tokens(tokens, [answer(number) for number in numbers])
        return cached

    def load(self, numbers):
        """[whether a prompt's first block came, at least]"""
        self.evict()
        return [tokens > 0 for tokens in self.run(numbers)]

    def store(self, numbers):
        """Whether all blocks were."""
        self.evict()
        before = self.engine.counts()["stored"]
        self.run(numbers)
        self.idle()
        return self.engine.counts()["stored"] - before == BLOCKS * len(numbers)

    def idle(self):
        """Until nothing is left to store."""
        def is_idle():
            self.engine.step()
            return not self.worker._stores._under_way

        self.engine.settle()
        assert wait_until(is_idle), "stores have no end"

    def evict(self):
        """All that vLLM has."""
        self.engine.settle()
        assert self.engine.scheduler.reset_prefix_cache()

    def keys(self, number):
        request = self.engine.request(prompt(number))
        return self.worker.shard.keys(self.engine.connector._scheduler._names(request, 0, BLOCKS)).reshape(-1, 16)

    def close(self):
        self.engine.close()
