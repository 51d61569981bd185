#!/usr/bin/env python3
"""Measures the client in Python beside that in C++, in turns: a table; --json writes more.

Needs NumPy and the package farpage: installed, or `PYTHONPATH=python` and FARPAGE_LIBRARY, which
names a release build's libfarpage.so.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import time

import farpage
import numpy
from farpage._library import c
from measure import bench

SUBMIT_KEYS, SUBMIT_US_MOST = 64, 20
LARGE_PAGES, LARGE_BYTES, SHARE_MOST = 16, 2 << 20, 0.03
SMALL_BATCH, SMALL_PAGES, SMALL_BYTES, RATIO_LEAST = 1024, 8192, 4096, 0.8
IMPORT_RUNS, IMPORT_MS_MOST = 15, 50
SPACE = farpage.KeySpace(model="bench")


def median_us(samples_ns):
    return statistics.median(samples_ns) / 1e3


class Pages:
    """Registered memory for a batch of pages that a node in this process holds."""

    def __init__(self, client, count, page_bytes):
        self.client = client
        self.keys = SPACE.keys([f"{page_bytes} {number}" for number in range(count)])
        self.memory = numpy.ones((count, page_bytes), numpy.uint8)
        client.register(self.memory)
        for first in range(0, count, 16):
            results = client.put(self.keys[first:first + 16], self.memory[first:first + 16], timeout_s=30).wait()
            if results["code"].any():
                sys.exit(f"python_client: pages were not put: {results}")

    def samples(self, seconds):
        """Nanoseconds of [submit, wait with its result, both] of fetches of all pages."""
        found, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            begun = time.perf_counter_ns()
            ticket = self.client.fetch(self.keys, self.memory, timeout_s=30)
            submitted = time.perf_counter_ns()
            verdicts = ticket.wait()
            ended = time.perf_counter_ns()
            if (verdicts["verdict"] != farpage.Verdict.READY).any():
                sys.exit(f"python_client: pages were not ready: {verdicts}")
            found.append((submitted - begun, ended - submitted, ended - begun))
            del ticket
        return found

    def bare_samples(self, seconds):
        """The same by the library's calls alone, with arguments that were prepared."""
        rows = self.client._regions.pages([], self.memory, len(self.keys), False).rows.copy()
        rows[:, 1:3] = self.keys.view(numpy.uint64)
        handle, opened, place = ctypes.c_void_p(), self.client._handle, ctypes.byref(ctypes.c_char.from_buffer(rows))
        out, count, found, until = ctypes.byref(handle), len(rows), [], time.monotonic() + seconds
        while time.monotonic() < until:
            begun = time.perf_counter_ns()
            c.fetch(opened, place, count, 30_000_000, None, out)
            submitted = time.perf_counter_ns()
            c.ticket_wait(handle, 30_000_000)
            ended = time.perf_counter_ns()
            c.ticket_free(handle)
            found.append((submitted - begun, ended - submitted, ended - begun))
        return found


def own_us(pages, seconds):
    """(µs of a whole fetch, µs of it that are Python's): what bare calls take is not."""
    whole = numpy.median(pages.samples(seconds), 0)
    bare = numpy.median(pages.bare_samples(seconds), 0)
    return whole[2] / 1e3, max(0.0, float(whole[2] - bare[2])) / 1e3


def python_own_us(client, seconds):
    """µs of a fetch that are Python's, of 16 pages that are too small to hide them."""
    return own_us(Pages(client, LARGE_PAGES, 64), seconds)[1]


def small_pages_per_s(seconds):
    with farpage.open(embedded={"pool_bytes": "128MiB", "page_bytes": SMALL_BYTES}) as client:
        pages = Pages(client, SMALL_PAGES, SMALL_BYTES)
        batch = pages.memory[:SMALL_BATCH]
        count, first, begun = 0, 0, time.monotonic()
        while time.monotonic() < begun + seconds:
            verdicts = client.fetch(pages.keys[first:first + SMALL_BATCH], batch, timeout_s=30).wait()
            count += int((verdicts["verdict"] == farpage.Verdict.READY).sum())
            first = (first + SMALL_BATCH) % SMALL_PAGES
        return count / (time.monotonic() - begun)


def import_ms():
    program = "import time; begun = time.perf_counter_ns(); import farpage; print(time.perf_counter_ns() - begun)"
    taken = [int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout) for _ in range(IMPORT_RUNS)]
    return statistics.median(taken) / 1e6


def measure(options):
    rounds = []
    for _ in range(options.rounds):
        with farpage.open(embedded={"pool_bytes": "64MiB"}) as client:
            submits = Pages(client, SUBMIT_KEYS, 4096)
            submit_us = median_us([sample[0] for sample in submits.samples(options.seconds)])
            bare_us = median_us([sample[0] for sample in submits.bare_samples(options.seconds)])
            own = python_own_us(client, options.seconds)
        with farpage.open(embedded={"pool_bytes": "128MiB", "page_bytes": "2MiB"}) as client:
            large_us = median_us([sample[2] for sample in Pages(client, LARGE_PAGES, LARGE_BYTES).samples(options.seconds)])
        python = small_pages_per_s(options.seconds)
        cpp = bench(options.farpage, "client", "--page-bytes", SMALL_BYTES, "--pages", SMALL_PAGES, "--batch", SMALL_BATCH,
                    "--threads", 1, "--seconds", options.seconds)
        rounds.append({"submit_us": submit_us, "submit_c_us": bare_us, "own_us": own, "large_us": large_us, "share": own / large_us,
                       "small_pages_per_s": python, "small_pages_per_s_cpp": cpp["one_pages_per_s"], "ratio": python / cpp["one_pages_per_s"],
                       "import_ms": import_ms()})
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--farpage", default="build/release/bin/farpage")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    got = measure(options)
    rows = (("submit of 64 keys, p50", f"{got['submit_us']:.1f} µs; the call in C alone {got['submit_c_us']:.1f} µs", got["submit_us"] <= SUBMIT_US_MOST, f"≤ {SUBMIT_US_MOST} µs"),
            ("Python's share of a fetch of 16 × 2 MiB", f"{got['share']:.2%}: {got['own_us']:.1f} of {got['large_us']:.0f} µs", got["share"] <= SHARE_MOST, f"≤ {SHARE_MOST:.0%}"),
            ("4 KiB in batches of 1,024", f"{got['small_pages_per_s']:,.0f} pages/s, {got['ratio']:.2f} × C++", got["ratio"] >= RATIO_LEAST, f"≥ {RATIO_LEAST} ×"),
            ("import farpage", f"{got['import_ms']:.1f} ms", got["import_ms"] <= IMPORT_MS_MOST, f"≤ {IMPORT_MS_MOST} ms"))
    print("| case | measured | bound |\n|---|---|---|")
    for name, measured, kept, bound in rows:
        print(f"| {name} | {measured}{'' if kept else ': **missed**'} | {bound} |")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(got, file, indent=2)
    sys.exit(0 if all(kept for _, _, kept, _ in rows) else 1)


if __name__ == "__main__":
    main()
