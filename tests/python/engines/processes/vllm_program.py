"""vLLM's engine as a program of its own, which tests kill and end. In an environment that has vLLM
(scripts/test-engines)."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from program import Case
from truth import assert_answer
from vllm_engine import ENVIRONMENT, PROMPT_CHUNKS, SOURCE, tiny_model, why_not_at_length

CACHED_TOKENS = PROMPT_CHUNKS * 32
NEAR = 1e-3  # between logprobs, where other parts of a prompt were computed together
PATIENT_MS = 60_000


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


class ProgramCase(Case):
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
