#!/usr/bin/env python3
"""Measures a node's busy client beside hostile ones, in turns: a table, and --json writes more.

`strangers`: connections that say half a greeting, one after the other as fast as they come, over
tcp. Two batches of --at-once / 2 stay open at this end; the node keeps the newest alone. `misses`:
a client that asks for pages that nobody has put, as fast as it can, in calls of 8,192 keys. The
ratios are those beside the hostile client and beside the same one at another node, whose work takes
as much of the processors. The exit status is 1 if a page of the busy client was wrong, or not ready
within a second.

`misses` needs NumPy and the package farpage: installed, or `PYTHONPATH=python` and
FARPAGE_LIBRARY, which names a release build's libfarpage.so.
"""

import argparse
import contextlib
import json
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

from idle_cost import MIB, cpu_s, memory_of
from measure import Failure, bench, memory_node, require, running, wait_until_quiet

HALF_A_GREETING = b"FPGN" + struct.pack("<II", 1, 1) + bytes(10)
KEYS = 8_192  # of a call
DEADLINE_S = 1
BUSY = ["--page-bytes", "64KiB", "--batch", "1", "--depth", "1", "--connections", "1", "--pool-bytes", "64MiB",
        "--deadline-us", 1_000_000 * DEADLINE_S]


class Strangers:
    """A thread that opens connections until the block ends."""

    def __init__(self, address, at_once):
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self.address, self.batch = (host, int(port)), at_once // 2
        self.asked = self.unanswered = 0
        self.error = None
        self.is_ending = threading.Event()
        self.thread = threading.Thread(target=self.come)

    def come(self):
        batches = [[], []]
        try:
            while not self.is_ending.is_set():
                for each in batches.pop(0):
                    each.close()
                batches.append([])
                while len(batches[-1]) < self.batch and not self.is_ending.is_set():
                    self.add_one(batches[-1])
        except OSError as error:  # this host has no more descriptors or ports
            self.error = error
        for each in sum(batches, []):
            each.close()

    def add_one(self, batch):
        self.asked += 1
        try:
            batch.append(socket.create_connection(self.address, timeout=DEADLINE_S))
        except (ConnectionError, TimeoutError):  # the node's queue of those that wait is full
            self.unanswered += 1
            return
        with contextlib.suppress(ConnectionError):  # the node may have closed it
            batch[-1].sendall(HALF_A_GREETING)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_ending.set()
        self.thread.join()

    def found(self):
        if self.error:
            raise Failure(f"no more strangers could come: {self.error}: choose fewer with --at-once")
        return {"asked": self.asked, "unanswered": self.unanswered}


class Misses:
    """A process that asks for pages until the block ends."""

    def __init__(self, address, backend):
        self.command = [sys.executable, __file__, "--ask", address, "--backend", backend]
        self.said = ""

    def __enter__(self):
        self.running = running(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process = self.running.__enter__()
        if self.process.stdout.readline() != "ready\n":
            self.running.__exit__(None, None, None)
            raise Failure("the client that asks for misses did not connect")
        return self

    def __exit__(self, *_):
        self.said, _ = self.process.communicate()
        self.running.__exit__(None, None, None)

    def found(self):
        if self.process.returncode != 0:
            raise Failure("the client that asks for misses has failed")
        return json.loads(self.said)


def ask_for_misses(backend, address):
    import farpage
    import numpy

    is_ending = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_ending.set()), daemon=True).start()
    random, asked, unanswered = numpy.random.default_rng(1), 0, 0
    with farpage.open(node=address, backend=backend) as client:
        print("ready", flush=True)
        while not is_ending.is_set():
            keys = random.integers(0, 256, (KEYS, 16), numpy.uint8)
            answers = client.exists(keys, timeout_s=DEADLINE_S).wait()
            asked += KEYS
            # An index's answer is a hint: one in a million says that the page is there.
            unanswered += int(((answers["verdict"] != farpage.Verdict.READY) & (answers["reason"] != farpage.Reason.MISS)).sum())
    print(json.dumps({"asked": asked, "unanswered": unanswered}))


class Beside:
    """The busy client of a node, beside a hostile one of the same node, and of another one."""

    def __init__(self, options, address, process):
        self.options, self.address, self.process = options, address, process
        self.is_well = True

    def busy(self, hostile):
        """Beside it: figures of the busy client, of the hostile one, and of the node."""
        with hostile:
            memory, spent_s, begun = memory_of(self.process)["Rss"], cpu_s(self.process), time.monotonic()
            result = bench(self.options.farpage, "fetch", "--backend", self.options.backend, "--node", self.address, *BUSY,
                           "--seconds", self.options.seconds)
            seconds, node_cores = time.monotonic() - begun, (cpu_s(self.process) - spent_s) / (time.monotonic() - begun)
            grew = memory_of(self.process)["Rss"] - memory
        self.is_well = self.is_well and not result["verdicts"]["recompute"] and not result["wrong_bytes"]
        if result["fetch_us"]["p99"] is None:
            raise Failure("the fetches were too few for a p99: choose more --seconds")
        return {"pages_per_s": result["pages_per_s"], "p99_us": result["fetch_us"]["p99"], "seconds": seconds, "node_cores": node_cores,
                "node_grew_bytes": grew, **hostile.found()}


def row(name, rounds):
    def ratio(key):
        return statistics.median(here[key] / elsewhere[key] for here, elsewhere in rounds)

    def median(value):
        return statistics.median(value(here) for here, _ in rounds)

    return (f"{name:<12}{sum(here['asked'] for here, _ in rounds):>14,}{median(lambda each: each['asked'] / each['seconds']):>14,.0f}"
            f"{sum(here['unanswered'] for here, _ in rounds):>12,}{ratio('pages_per_s'):>14.2f}{ratio('p99_us'):>12.2f}"
            f"{median(lambda each: each['node_cores']):>12.2f}{median(lambda each: each['node_grew_bytes']) / MIB:>16.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--farpage", default="build/release/bin/farpage", help="the program")
    parser.add_argument("--backend", choices=("tcp", "shm"), default="tcp", help="of the busy client and of the misses")
    parser.add_argument("--at-once", type=int, default=10_000, help="strangers; fewer than descriptors that this process may open")
    parser.add_argument("--seconds", type=float, default=5, help="of the busy client, each time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="file for all rounds")
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        return ask_for_misses(options.backend, options.ask)
    require(options.farpage, {})
    if options.at_once < 2:
        parser.error("--at-once is at least 2")
    print(f"load of everything else: {100 * wait_until_quiet(30):.0f}% of all cores", file=sys.stderr)
    rounds = {"misses": []} if options.backend == "shm" else {"strangers": [], "misses": []}
    settings = ("--pool-bytes", "256MiB", "--page-bytes", "64KiB")
    with (tempfile.TemporaryDirectory() as folder, memory_node(options.farpage, options.backend, folder, *settings) as (address, process),
          memory_node(options.farpage, options.backend, folder, *settings) as (other, _)):
        beside = Beside(options, address, process)
        for _ in range(options.rounds):
            for name, made in rounds.items():
                made.append([beside.busy(Strangers(node, options.at_once) if name == "strangers" else Misses(node, options.backend))
                             for node in (address, other)])
    print(f"{'':<12}{'asked':>14}{'asked/s':>14}{'unanswered':>12}{'pages/s, x':>14}{'p99, x':>12}{'node, cores':>12}{'node grew, MiB':>16}")
    for name, made in rounds.items():
        print(row(name, made))
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=1), encoding="utf-8")
    if not beside.is_well:
        sys.exit("hostile: pages of the busy client were wrong, or not ready in time")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"hostile: {failure}")
