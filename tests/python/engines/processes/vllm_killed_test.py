"""vLLM's default engine, which is several processes, over one node: it is killed in the middle of
its stores. In an environment that has vLLM (scripts/test-engines)."""

import os
import unittest

from program import wait_until
from vllm_engine import PROMPT_CHUNKS, chunk_bytes
from vllm_program import CACHED_TOKENS, NEAR, ProgramCase, setUpModule  # noqa: F401

PROMPTS, KILL_AFTER = 20, 5  # it is killed when so many more prompts have been stored
ROOMY_CHUNKS = 40  # room for loads beside stores, and far less than all prompts


class KilledTest(ProgramCase):
    def test_an_engine_finds_what_another_stored_before_it_was_killed(self):
        """The second engine has no node until the first is dead: so its first answers are vLLM's
        own, and then nothing that is half-stored may change them."""
        node, later = self.start_node("--page-bytes", chunk_bytes(self.model), pool="128MiB"), self.folder / "later.sock"
        first, second = self.start("first", node.socket), self.start("second", later, cpu_chunks=ROOMY_CHUNKS)
        first.line("ready")
        second.line("ready")
        wanted = [each for each in enumerate(second.generate(*range(PROMPTS))) if each[1]["margin"] > 2 * NEAR]
        self.assertEqual({answer["cached"] for _, answer in wanted}, {0})
        self.assertGreater(len(wanted), PROMPTS // 2)

        self.assert_near(first.generate(wanted[0][0])[0], wanted[0][1])
        self.assertTrue(wait_until(lambda: self.status(node)["puts"] >= PROMPT_CHUNKS))
        # Its chunks that others' stores still read have no room for a prompt.
        self.assertTrue(wait_until(lambda: self.after_others(first, wanted[0][0])["cached"] == CACHED_TOKENS))
        self.assert_near(self.after_others(first, wanted[0][0]), wanted[0][1])

        puts = self.status(node)["puts"]
        first.ask("generate", [number for number, _ in wanted[1:]])
        self.assertTrue(wait_until(lambda: self.status(node)["puts"] >= puts + KILL_AFTER * PROMPT_CHUNKS, seconds=100))
        first.kill()

        puts = self.status(node)["puts"]
        os.symlink(node.socket, later)
        self.assertTrue(wait_until(lambda: second.generate(next(self.others)) and self.status(node)["puts"] > puts, seconds=100))
        answers = second.generate(*(number for number, _ in wanted))
        for answer, (_, alone) in zip(answers, wanted):
            self.assert_near(answer, alone)
        cached = [answer["cached"] for answer in answers]
        print(f"tokens of each prompt that the second engine did not compute: {cached}", flush=True)
        self.assertGreaterEqual(sum(tokens == CACHED_TOKENS for tokens in cached), KILL_AFTER)
        if cached[-1] > 0:
            self.skipTest("the first engine had stored all before it was killed: this machine is too busy to kill it in the middle")


if __name__ == "__main__":
    unittest.main()
