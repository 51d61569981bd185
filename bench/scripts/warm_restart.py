#!/usr/bin/env python3
"""Measures how long a node is away when it is replaced while its pages are held.

It counts the pages that the node serves again, and starts an empty node of the same size beside it.
"""

import argparse
import contextlib
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from measure import Failure, bench, free_port, memory_node, require, running, wait_until_quiet

PAGE_BYTES = 64 << 10
PATIENCE_S = 60
BOUND_S, BOUND_SHARE = 3, 0.99  # at 2 GiB


def status(program, address):
    """Nothing while no node answers."""
    asked = subprocess.run([program, "status", "--node", address, "--json", "-"], capture_output=True, text=True, timeout=30, check=False)
    return json.loads(asked.stdout) if asked.returncode == 0 else None


def seconds_until(condition):
    begin = time.monotonic()
    while not condition():
        if time.monotonic() > begin + PATIENCE_S:
            raise Failure(f"the node did not serve within {PATIENCE_S} s")
    return time.monotonic() - begin


@contextlib.contextmanager
def held_node(options, backend, folder):
    address = f"tcp://127.0.0.1:{free_port()}" if backend == "tcp" else f"{folder}/held.sock"
    with running([options.farpage, "hold", "--", options.farpage, "node", "--listen", address, "--state", f"{folder}/state",
                  "--page-bytes", PAGE_BYTES, "--pool-bytes", options.pool_bytes], stop_s=PATIENCE_S, stderr=subprocess.DEVNULL) as holder:
        seconds_until(lambda: status(options.farpage, address))
        yield address, holder


def empty_start_s(options, backend, folder):
    begin = time.monotonic()
    with memory_node(options.farpage, backend, folder, "--page-bytes", str(PAGE_BYTES), "--pool-bytes", str(options.pool_bytes)):
        return time.monotonic() - begin


def touch_memory(byte_count):
    """Makes the host find the memory that a run takes.

    The host of a virtual machine may need seconds for a GiB that was never used, or not lately.
    """
    return len(b"\1" * byte_count)


def measure(options, backend, folder):
    """For each round: time away, share of pages that came back, and the start of an empty node."""
    rounds = []
    with held_node(options, backend, folder) as (address, holder):
        # The slots that a node keeps free are not filled.
        bench(options.farpage, "fetch", "--node", address, "--page-bytes", PAGE_BYTES, "--pool-bytes", options.pool_bytes * 7 // 8,
              "--seconds", 0.1)
        for _ in range(options.rounds):
            before = status(options.farpage, address)
            if before["slots_live"] * PAGE_BYTES < options.pool_bytes * 3 // 4:
                raise Failure(f"the node holds {before['slots_live']} pages, too few to say anything")
            touch_memory(options.pool_bytes)
            holder.send_signal(signal.SIGHUP)

            def is_next_run(was=before["incarnation"]):
                now = status(options.farpage, address)
                return now is not None and now["incarnation"] != was

            away_s = seconds_until(is_next_run)
            share = status(options.farpage, address)["slots_live"] / before["slots_live"]
            rounds.append((away_s, share, empty_start_s(options, backend, folder)))
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--farpage", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/farpage"), metavar="PROGRAM")
    parser.add_argument("--pool-bytes", type=int, default=2 << 30, metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    require(options.farpage, {})
    wait_until_quiet(PATIENCE_S)
    holds = True
    for backend in ("shm", "tcp"):
        with tempfile.TemporaryDirectory() as folder:
            rounds = measure(options, backend, folder)
        away_s, share, empty_s = (statistics.median(column) for column in zip(*rounds))
        worst_s, least = max(row[0] for row in rounds), min(row[1] for row in rounds)
        holds = holds and worst_s <= BOUND_S and least >= BOUND_SHARE
        print(f"{backend}  away {away_s:.2f} s (at most {worst_s:.2f}), {100 * share:.1f}% of its pages again (at least {100 * least:.1f}%); "
              f"an empty one starts in {empty_s:.2f} s: {away_s / empty_s:.2f} x")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
