#!/usr/bin/env python3
"""How near a node's eviction comes to the simulation of its policy.

A client that keeps no page replays a trace through a node of its own, beside `farpage-lab policies`
at the same budget.

    lab/scripts/eviction_agreement.py [TRACE] [--programs build/release/bin]
        [--policy clock,lru,s3fifo,reuse_rate] [--budget 5000,20000]

Without a trace it takes that of `farpage-lab policies`. No replay has `clock`, which the script
compares with `lru`.
"""

import argparse
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/scripts"))
from measure import Failure, memory_node, run  # noqa: E402

PAGE_BYTES, HEADER_BYTES = 4096, 64
REPLAY_S = 3600
REUSE_MS = 10  # so that puts seldom wait for slots that cool


def resident_pages(slots):
    """Pages that a node has after a put: node/store/page_store.cc keeps others free or cooling."""
    return slots - max(1, slots // 16) + 1


def slots_for(pages):
    return next(slots for slots in range(pages, 2 * pages + 2) if resident_pages(slots) == pages)


def simulated(program, trace, policy, budget):
    name = "lru" if policy == "clock" else policy
    answer = run([program, "policies", *trace, "--policy", name, "--budget", str(budget), "--json", "-"], timeout_s=REPLAY_S)
    return json.loads(answer)["runs"][0]["hit_rate"]


def at_a_node(programs, trace, policy, budget, folder):
    pool_bytes = slots_for(budget) * (PAGE_BYTES + HEADER_BYTES)
    with memory_node(programs / "farpage", "shm", folder, "--pool-bytes", str(pool_bytes), "--set", f"node.page_bytes={PAGE_BYTES}",
                     "--set", f"node.reuse_ms={REUSE_MS}", "--set", f"node.eviction={policy}") as (address, _):
        result = json.loads(run([str(programs / "farpage-lab"), "replay", *trace, "--node", address, "--page-bytes", str(PAGE_BYTES), "--local-pages", "0",
                                 "--json", "-"], timeout_s=REPLAY_S))
    return result["verdicts"]["ready"] / result["pages_demanded"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trace", nargs="*", help="and its --format, as farpage-lab takes them")
    parser.add_argument("--programs", default="build/release/bin", type=pathlib.Path, help="the folder of farpage and farpage-lab")
    parser.add_argument("--policy", default="clock,lru,s3fifo,reuse_rate")
    parser.add_argument("--budget", default="5000,20000", help="in pages")
    options, more = parser.parse_known_args()
    trace = [*options.trace, *more]
    print("| policy | pages | simulated | at the node | difference |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for policy in options.policy.split(","):
            for budget in map(int, options.budget.split(",")):
                expected = simulated(str(options.programs / "farpage-lab"), trace, policy, budget)
                found = at_a_node(options.programs, trace, policy, budget, folder)
                print(f"| `{policy}` | {budget} | {expected:.4f} | {found:.4f} | {found - expected:+.4f} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(str(failure))
