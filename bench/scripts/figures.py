#!/usr/bin/env python3
"""Measures every figure of docs/performance.md: medians of runs, beside peers, as a table.

Needs a release build of farpage, and Debian's ucx-utils for the comparison with UCX.
"""

import argparse
import shutil
import statistics
import sys

from measure import QUIET_SHARE, Failure, bench, busy_share, median, require
from peer_ucx import ucp_get


def fetch(program, page, batch, pool, seconds, verify="on"):
    return bench(program, "fetch", "--backend", "shm", "--page-bytes", page, "--batch", batch, "--depth", "1",
                 "--connections", "1", "--pool-bytes", pool, "--seconds", seconds, "--verify", verify)


def row(case, figure, bound, holds):
    print(f"| {case} | {figure} | {bound} | {'yes' if holds else '**no**'} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--farpage", default="build/release/bin/farpage")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", default="3", help="of each run")
    parser.add_argument("--index-pages", default="10000000")
    options = parser.parse_args()
    require(options.farpage, {})
    repeat = range(options.runs)
    load = busy_share()
    if load > QUIET_SHARE:
        print(f"figures: something else takes {100 * load:.0f}% of the cores, and spoils every figure", file=sys.stderr)

    print("| case | measured | bound | holds |\n|---|---|---|---|")

    # With few pages a batch, the destinations stay in the cache, and memcpy is faster than memory.
    for batch, bound in (("1024", 0.95), ("16", 0.90)):
        runs = [fetch(options.farpage, "64KiB", batch, "2GiB", options.seconds) for _ in repeat]
        ratio = median(runs, lambda run: run["bytes_per_s"] / run["memcpy_bytes_per_s"])
        speed = median(runs, lambda run: run["bytes_per_s"]) / 1e9
        row(f"64 KiB, batches of {int(batch):,}, random over 2 GiB, checked", f"{speed:.2f} GB/s, {ratio:.3f} × memcpy",
            f"≥ {bound:.2f} × memcpy", ratio >= bound)
        share = median(runs, lambda run: run["node_cpu_s"] / run["client_cpu_s"])
        row("the same: node's CPU against the client's", f"{100 * share:.4f}%", "≤ 1%", share <= 0.01)
        wrong = sum(run["wrong_bytes"] for run in runs)
        row("the same: wrong bytes", f"{wrong}", "0", wrong == 0)

    if shutil.which("ucx_perftest"):
        pairs = [(fetch(options.farpage, "64KiB", "1", "512KiB", options.seconds, "off")["fetch_us"]["p50"],
                  ucp_get("posix,cma,self", 65536, 200_000, 1).p50_us) for _ in repeat]
        ours, theirs = (statistics.median(values) for values in zip(*pairs))
        row("64 KiB, one page at a time, in cache, unchecked", f"p50 {ours:.2f} µs, {ours / theirs:.2f} × ucp_get ({theirs:.2f} µs)",
            "≤ 1.05 × ucp_get", ours <= 1.05 * theirs)
    else:
        print("figures: ucx_perftest is not there (Debian's ucx-utils): not compared", file=sys.stderr)

    runs = [fetch(options.farpage, "4KiB", "100000", "2GiB", options.seconds) for _ in repeat]
    rate = median(runs, lambda run: run["pages_per_s"])
    row("4 KiB, batches of 100,000, random over 2 GiB, checked", f"{rate / 1e6:.2f} million pages/s", "≥ 1 million", rate >= 1e6)

    runs = [bench(options.farpage, "index", "--pages", options.index_pages) for _ in repeat]
    client_bytes = median(runs, lambda run: run["client_bytes_per_page"])
    row(f"client's page table, {int(options.index_pages):,} pages", f"{client_bytes:.1f} bytes a page", "≤ 72", client_bytes <= 72)
    lookup = median(runs, lambda run: run["lookup_ns"])
    ratio = median(runs, lambda run: run["lookup_ratio"])
    row("the same: lookup", f"{lookup:.0f} ns, {ratio:.1f} × of one among 100,000", "≤ 10 ×", ratio <= 10)
    slot = median(runs, lambda run: run["node_bytes_per_slot"])
    row("node's index and slot state", f"{slot:.1f} bytes a slot", "≤ 32", slot <= 32)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"figures: {failure}")
