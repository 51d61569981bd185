#!/usr/bin/env python3
"""What being sure costs: checking every byte, and a second replica. Two runs of Farpage take turns."""

import contextlib
import sys

from compare import Case, Sides, comparison_options, compare_all
from measure import bench, require

GIB = 1 << 30


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

    def every(self):
        return [
            Case("crc", "64 KiB, shm, random over 2 GiB, CRC on", "CRC off", "pages/s", 0.82, self.checking),
            Case("put-shm", "put of 64 KiB to its acknowledgement, shm, p50, 2 replicas of 3 nodes", "1 replica", "µs", 2.2,
                 lambda: self.second_replica("shm"), True),
            Case("put-tcp", "put of 64 KiB to its acknowledgement, tcp, p50, 2 replicas of 3 nodes", "1 replica", "µs", 2.2,
                 lambda: self.second_replica("tcp"), True),
        ]


def main():
    options = comparison_options(__doc__).parse_args()
    require(options.farpage, {})
    return compare_all(Cases(options).every(), options)


if __name__ == "__main__":
    sys.exit(main())
