#!/usr/bin/env python3
"""Accesses a second that policies decide on one core in `farpage-lab policies`, and memory.

The memory is that of a trace with eight times the accesses to the same pages.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile


sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("bench/scripts", "python")]
from measure import Failure, require, wait_until_quiet  # noqa: E402
from farpage.access_trace import Writer  # noqa: E402

PATIENCE_S = 60
PAGES, BUDGET_PAGES, STEP_ACCESSES = 100_000, 20_000, 100
POLICIES = ("random", "lru", "lfu", "fifo", "s3fifo", "windowed_recency", "heavy_hitter", "cost_aware", "predictive", "regret_aware", "reuse_rate",
            "recency", "stability", "attention", "h2o", "raas", "lazy", "importance", "milestone")
BOUND_NS = 200  # of an access
ASKED_PER_S = {"lru": 5e6, "importance": 2e6}
MOST_GROWTH = 1.1


def write_trace(path, accesses, seed):
    """Each page once, then a tenth of the accesses to any page, the others mostly to few."""
    draw = random.Random(seed)
    with Writer(path, "random", synthetic=True, columns=["mass"]) as trace:
        for number in range(accesses):
            page = draw.randrange(PAGES) if number % 10 == 0 else int(draw.paretovariate(0.35)) % PAGES
            trace.add(number // STEP_ACCESSES, number if number < PAGES else page, mass=draw.random() / STEP_ACCESSES)


def in_own_process(call, *arguments):
    """Calls it in a process of its own, so that this process does not keep the memory.

    Programs that start later begin as a copy of this process, memory included.
    """
    process = multiprocessing.Process(target=call, args=arguments)
    process.start()
    process.join()
    if process.exitcode != 0:
        raise Failure(f"{call.__name__} has failed")


def replay(program, path, policy):
    """(its run, the most memory that the process had, in bytes)"""
    command = [program, "policies", path, "--format", "access", "--policy", policy, "--budget", str(BUDGET_PAGES), "--json", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        answer = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))} has failed")
    if used.ru_maxrss <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
        raise Failure("this process has more memory than the replay, which hides what the replay has")
    return json.loads(answer)["runs"][0], used.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--farpage-lab", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/farpage-lab"), metavar="PROGRAM")
    parser.add_argument("--accesses", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    require(options.farpage_lab, {})
    holds = True
    with tempfile.TemporaryDirectory() as folder:
        short, long = pathlib.Path(folder) / "short", pathlib.Path(folder) / "long"
        in_own_process(write_trace, short, options.accesses, options.seed)
        in_own_process(write_trace, long, 8 * options.accesses, options.seed)
        wait_until_quiet(PATIENCE_S)
        for policy in POLICIES:
            (run, long_bytes), (_, short_bytes) = replay(options.farpage_lab, long, policy), replay(options.farpage_lab, short, policy)
            growth = long_bytes / short_bytes
            holds = holds and growth <= MOST_GROWTH and run["accesses_per_s"] >= ASKED_PER_S.get(policy, 0)
            access_ns = 1e9 / run["accesses_per_s"]
            print(f"{policy:<16}  {run['accesses_per_s'] / 1e6:6.2f} million accesses/s  {access_ns:6.0f} ns, {BOUND_NS} {'held' if access_ns <= BOUND_NS else 'missed':<6}  "
                  f"hit rate {run['hit_rate']:.3f}  {long_bytes / 2**20:.1f} MiB, {growth:.2f} x those of an eighth of the accesses", flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
