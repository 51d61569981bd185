"""vLLM's default engine, which is several processes, and engines that end in the middle of their
work, over one node. In an environment that has vLLM (scripts/test-engines)."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from program import Case, wait_until
from truth import assert_answer
from vllm_engine import ENVIRONMENT, PROMPT_CHUNKS, SOURCE, chunk_bytes, tiny_model, why_not_at_length

CACHED_TOKENS = PROMPT_CHUNKS * 32
NEAR = 1e-3  # between logprobs, where other parts of a prompt were computed together
PATIENT_MS = 60_000
PROMPTS, KILL_AFTER = 20, 5  # it is killed when so many more prompts have been stored
EXIT_S = 60
ROOMY_CHUNKS = 40  # room for loads beside stores, and far less than all prompts


def setUpModule():
    if why := why_not_at_length():
        print(f"skipped: {why}", flush=True)
        raise unittest.SkipTest(why)


class Program:
    """An engine in processes of its own."""

    def __init__(self, case, name, model, node, *, processes, **options):
        self.case, self.name = case, f"farpage-{os.getpid()}-{name}"
        settings = {"model": model, "engine_id": self.name, "tiers": [{"node": str(node), "timeout_ms": PATIENT_MS, "store_timeout_ms": PATIENT_MS}], **options}
        environment = {**os.environ, **ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(processes))}
        program = SOURCE / "tests/python/engines/vllm_engine.py"
        self.said = open(case.folder / f"{name}.log", "w", encoding="utf-8")
        self.process = subprocess.Popen([sys.executable, program, json.dumps(settings)], env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.said, start_new_session=True)
        case.addCleanup(self.end)

    def line(self, word):
        for line in self.process.stdout:
            if line.startswith(word):
                return line[len(word):]
        self.said.flush()
        return self.case.fail(pathlib.Path(self.said.name).read_text(encoding="utf-8"))

    def ask(self, *question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()

    def generate(self, *numbers):
        self.ask("generate", numbers)
        return json.loads(self.line("answers"))

    def kill(self):
        """All its processes."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.said.close()
        for left in pathlib.Path("/dev/shm").glob(f"vllm_offload_{self.name}*"):
            left.unlink()  # vLLM leaves it when it is killed


class ProcessesTest(Case):
    def setUp(self):
        super().setUp()
        self.model = tiny_model(self.folder / "model")
        self.others = iter(range(1_000_000, 2_000_000))

    def start(self, name, node, *, processes=True, **options):
        return Program(self, name, self.model, node, processes=processes, **options)

    def after_others(self, engine, number):
        """Its answer, when vLLM's caches hold other prompts."""
        engine.generate(*(next(self.others) for _ in range(3)))
        return engine.generate(number)[0]

    def assert_near(self, answer, wanted):
        assert_answer((answer["tokens"], answer["logprobs"]), (wanted["tokens"], wanted["logprobs"]), NEAR)

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

    def test_an_exit_with_loads_under_way_ends(self):
        node = self.start_node("--page-bytes", chunk_bytes(self.model), listen="tcp://127.0.0.1:0", pool="128MiB")
        engine = self.start("exits", node.address, processes=False)
        engine.line("ready")
        self.assertTrue(wait_until(lambda: engine.generate(next(self.others)) and self.status(node)["puts"] > 0))
        engine.generate(1)
        self.assertTrue(wait_until(lambda: self.after_others(engine, 1)["cached"] == CACHED_TOKENS))
        engine.generate(*(next(self.others) for _ in range(3)))
        engine.ask("exit_in_a_load", [1], node.pid)
        self.assertEqual(engine.process.wait(EXIT_S), 0)
        self.assertEqual(list(pathlib.Path("/dev/shm").glob(f"farpage-{engine.process.pid}-*")), [])


if __name__ == "__main__":
    unittest.main()
