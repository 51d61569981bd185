#!/usr/bin/env python3
"""Measures the cost of reliability: checks of every byte, a second replica, and scrubbing.

Two runs of Farpage take turns.
"""

import contextlib
import statistics
import sys
import tempfile

from compare import Case, Sides, comparison_options, compare_all
from measure import bench, memory_node, require

GIB = 1 << 30
SCRUB_BYTES_PER_S = 32 << 20  # as node.toml has it
SCRUB_RUNS = 4


class Cases:
    def __init__(self, options):
        self.program, self.seconds = options.farpage, options.seconds

    def fetched(self, verify):
        return bench(self.program, "fetch", "--backend", "shm", "--page-bytes", "64KiB", "--pool-bytes", 2 * GIB,
                     "--verify", verify, "--seconds", self.seconds)["pages_per_s"]

    def put_p50_us(self, backend, replicas):
        return bench(self.program, "put", "--backend", backend, "--page-bytes", "64KiB", "--nodes", 3, "--replicas", replicas,
                     "--seconds", self.seconds)["put_us"]["p50"]

    @contextlib.contextmanager
    def checking(self):
        yield Sides(lambda: self.fetched("on"), lambda: self.fetched("off"))

    @contextlib.contextmanager
    def second_replica(self, backend):
        yield Sides(lambda: self.put_p50_us(backend, 2), lambda: self.put_p50_us(backend, 1))

    def fetched_of(self, node):
        """Of several runs, as the steps in which a p99 is told are as long as the bound is wide."""
        return statistics.fmean(
            bench(self.program, "fetch", "--backend", "shm", "--node", node, "--page-bytes", "64KiB", "--pool-bytes", "256MiB",
                  "--batch", 1, "--depth", 1, "--connections", 1, "--seconds", self.seconds)["fetch_us"]["p99"]
            for _ in range(SCRUB_RUNS))

    @contextlib.contextmanager
    def scrubbing(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            with_it, without = (
                stack.enter_context(memory_node(self.program, "shm", folder, "--pool-bytes", "1GiB", "--set", f"node.scrub_bytes_per_s={rate}"))
                for rate in (SCRUB_BYTES_PER_S, 0))
            yield Sides(lambda: self.fetched_of(with_it[0]), lambda: self.fetched_of(without[0]))

    def every(self):
        return [
            Case("crc", "64 KiB, shm, random over 2 GiB, CRC on", "CRC off", "pages/s", 0.82, self.checking),
            Case("put-shm", "put of 64 KiB to its acknowledgement, shm, p50, 2 replicas of 3 nodes", "1 replica", "µs", 2.2,
                 lambda: self.second_replica("shm"), True),
            Case("put-tcp", "put of 64 KiB to its acknowledgement, tcp, p50, 2 replicas of 3 nodes", "1 replica", "µs", 2.2,
                 lambda: self.second_replica("tcp"), True),
            Case("scrub", "64 KiB, one at a time, shm, p99, of a node that scrubs 32 MiB/s", "one that does not", "µs", 1.02,
                 self.scrubbing, True),
        ]


def main():
    options = comparison_options(__doc__).parse_args()
    require(options.farpage, {})
    return compare_all(Cases(options).every(), options)


if __name__ == "__main__":
    sys.exit(main())
