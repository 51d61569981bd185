#!/usr/bin/env python3
"""Measures Farpage beside its peers, in turns, on loopback: a table; --json and --svg write more.

Needs a release build of farpage, and Debian's redis-server, redis-tools, iperf3 and ucx-utils
(scripts/setup bench).
"""

import argparse
import contextlib
import json
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import idle_cost
import peer_iperf3
import peer_redis
import peer_ucx
import python_peers
import tls_cost
from compare import HEADER, Case, Sides, bar, compare, exit_status, row
from measure import Failure, bench, require, wait_until_quiet
from python_peers import PythonCases
from ratio_chart import ratio_chart

PACKAGES = {**peer_redis.PACKAGES, **peer_ucx.PACKAGES, **peer_iperf3.PACKAGES}
HERE = pathlib.Path(__file__).resolve().parent
POOL_BYTES = 512 << 20
MANY = ["--page-bytes", "64KiB", "--batch", "1", "--depth", "8", "--connections", "4"]
SINGLE = ["--page-bytes", "64KiB", "--batch", "1", "--depth", "1", "--connections", "1"]
SMALL = ["--page-bytes", "4KiB", "--batch", "1024", "--depth", "1", "--connections", "1"]
LARGE = ["--page-bytes", "2MiB", "--batch", "1", "--depth", "4", "--connections", "1"]
KEYS = ("redis", "ucx", "latency", "small", "iperf3", "crc", "tls", "idle", "rest", "idle-memory")
UNITS = """
GB/s are 10⁹ bytes of payload a second: Farpage's pages that were ready, each checked unless the row says otherwise; redis's values; UCX's
messages; what iperf3's receiver got. p50 is from the request until the page or the value is there; redis-benchmark counts it in steps of
8 µs, between which it is read linearly. Farpage and redis draw at random from 512 MiB of as many keys of the same size; UCX and iperf3 send
one buffer again and again.
"""


class Cases:
    def __init__(self, options, folder):
        self.program, self.backend, self.seconds, self.folder = options.farpage, options.backend, options.seconds, folder

    def fetch_arguments(self, arguments, where=()):
        return ["fetch", "--backend", self.backend, *arguments, "--pool-bytes", str(POOL_BYTES), "--seconds", str(self.seconds),
                *where]

    def fetch(self, arguments, *more):
        return bench(self.program, *self.fetch_arguments(arguments, more))

    def gbps(self, arguments, *more):
        return lambda: self.fetch(arguments, *more)["bytes_per_s"] / 1e9

    @contextlib.contextmanager
    def beside(self, ours, peer):
        yield Sides(ours, peer)

    @contextlib.contextmanager
    def beside_redis(self, ours, value_bytes, connections, in_flight):
        with peer_redis.redis(self.folder, POOL_BYTES // value_bytes, value_bytes) as server:
            yield Sides(ours, lambda: server.rate(self.seconds, connections, in_flight) * value_bytes / 1e9)

    @contextlib.contextmanager
    def latency(self):
        with peer_redis.redis(self.folder, POOL_BYTES // 65536, 65536) as server:
            yield Sides(lambda: self.fetch(SINGLE)["fetch_us"]["p50"], lambda: server.p50_us(self.seconds, 1, 1))

    @contextlib.contextmanager
    def tls(self):
        with tls_cost.tls_node(self.program, self.backend, self.folder, 2 * POOL_BYTES) as (node, process, needs):
            where = ["--node", node, *needs]
            yield Sides(self.gbps(MANY, *where), self.gbps(MANY), lambda: tls_cost.openssl_sentence(
                self.program, self.fetch_arguments(MANY, where), process, self.folder))

    @contextlib.contextmanager
    def idle(self, rest_ms):
        with idle_cost.idle_node(self.program, self.backend, self.folder) as (node, process):
            cost = idle_cost.BesideIdle(self.program, self.backend, node, process, self.seconds, rest_ms)
            yield Sides(cost.with_clients, cost.without, cost.sentence)

    @contextlib.contextmanager
    def idle_memory(self):
        measured = []
        def kib_per_client():
            measured.append(idle_cost.memory(self.program, self.backend, self.folder))
            return measured[-1]["rss_bytes_per_client"] / 1024
        yield Sides(kib_per_client, lambda: idle_cost.MOST_BYTES_PER_CLIENT / 1024,
                    lambda: idle_cost.memory_sentence(measured[-1]))

    def every(self):
        ucx = lambda: peer_ucx.ucp_get_for(self.seconds, "tcp,self", 65536, 32).bytes_per_s / 1e9
        iperf3 = lambda: peer_iperf3.stream(self.seconds) / 1e9
        many = self.gbps(MANY)
        return [
            Case("redis", "64 KiB, 4 connections × 8 in flight", "redis GET, -c 4 -P 8", "GB/s", 1.0,
                 lambda: self.beside_redis(many, 65536, 4, 8)),
            Case("ucx", "64 KiB, 4 connections × 8 in flight", "ucp_get over TCP, 32 in flight", "GB/s", 3.5,
                 lambda: self.beside(many, ucx)),
            Case("latency", "64 KiB, one at a time, p50", "redis GET, -c 1 -P 1", "µs", 1.1, self.latency, at_most=True),
            Case("small", "4 KiB, batches of 1,024, one connection", "redis GET, -c 1 -P 1024", "GB/s", 2.0,
                 lambda: self.beside_redis(self.gbps(SMALL), 4096, 1, 1024)),
            Case("iperf3", "2 MiB, one connection, 4 in flight", "iperf3, one stream", "GB/s", 1.0,
                 lambda: self.beside(self.gbps(LARGE), iperf3)),
            Case("crc", "64 KiB, 4 × 8, checked", "the same, --verify off", "GB/s", 0.78,
                 lambda: self.beside(many, self.gbps(MANY, "--verify", "off"))),
            Case("tls", "64 KiB, 4 × 8, over TLS", "the same without TLS", "GB/s", None, self.tls),
            Case("idle", "64 KiB, one at a time, p99, beside 1,000 idle clients", "the same without them", "µs", 1.2,
                 lambda: self.idle(idle_cost.NO_REST_MS), at_most=True),
            Case("rest", "the same, beside 1,000 whose links rest (client.rest_ms)", "the same without them", "µs", 1.2,
                 lambda: self.idle(idle_cost.SOON_REST_MS), at_most=True),
            Case("idle-memory", "a node's memory for each of 1,000 idle clients", "64 KiB and its staging", "KiB", 1.0, self.idle_memory,
                 at_most=True),
        ]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--farpage", default="build/release/bin/farpage")
    parser.add_argument("--backend", default="tcp")
    parser.add_argument("--rounds", type=int, default=5, help="of each case, one run of either side a round")
    parser.add_argument("--seconds", type=float, default=3, help="of each run")
    parser.add_argument("--patience", type=float, default=60, help="how many seconds a round waits for a quiet machine")
    parser.add_argument("--only", nargs="+", metavar="CASE", help="all without it; with --softroce those of rdma_peers.py: " + ", ".join(KEYS))
    parser.add_argument("--softroce", action="store_true", help="over RDMA instead, beside perftest, in a machine with Soft-RoCE devices")
    parser.add_argument("--python", metavar="INTERPRETER", help="the Python package beside redis-py, Mooncake's store and NIXL instead, with this one")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--svg", metavar="FILE")
    options = parser.parse_args()
    keys = python_peers.KEYS if options.python else KEYS
    unknown = set() if options.softroce else set(options.only or ()) - set(keys)
    if unknown:
        parser.error(f"there is no case {', '.join(sorted(unknown))}; there are {', '.join(keys)}")
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("rounds and seconds must be more than 0")
    return options


def write(path, text):
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise SystemExit(f"peers: cannot write {path}: {error.strerror}") from error


def over_softroce(options):
    """In one boot of the machine, whose folder for what is written is shared with this one."""
    with tempfile.TemporaryDirectory(prefix="peers") as folder:
        command = [HERE.parents[1] / "tests" / "softroce" / "machine", "--limit-s", "1800", "--out", folder, HERE / "rdma_peers.py",
                   "--farpage", options.farpage, "--rounds", str(options.rounds), "--seconds", str(options.seconds),
                   "--json", f"{folder}/peers.json", *(["--only", *options.only] if options.only else [])]
        status = subprocess.run(command, check=False).returncode
        measured = pathlib.Path(folder) / "peers.json"
        if options.json and measured.exists():
            shutil.copyfile(measured, options.json)
    return status


def main():
    options = parse_options()
    if options.softroce:
        sys.exit(over_softroce(options))
    require(options.farpage, {"redis-server": "redis-server"} if options.python else PACKAGES)
    if options.python:
        python_peers.require(options.python)
    # A signal must pass the blocks that end the servers. A node of 1,000 clients needs several
    # descriptors for each.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    print(HEADER, flush=True)
    results = []
    with tempfile.TemporaryDirectory(prefix="peers") as folder:
        for case in (PythonCases if options.python else Cases)(options, folder).every():
            if not options.only or case.key in options.only:
                results.append(compare(case, options.rounds, lambda: wait_until_quiet(options.patience)))
                print(row(results[-1]), flush=True)
    print(python_peers.UNITS if options.python else UNITS)
    if options.json:
        write(options.json, json.dumps({"backend": options.backend, "rounds": options.rounds, "seconds": options.seconds,
                                        "pool_bytes": POOL_BYTES, "cases": results}, indent=2, ensure_ascii=False) + "\n")
    if options.svg:
        write(options.svg, ratio_chart(f"Farpage ({options.backend}) beside its peers",
                                       [bar(result) for result in results if "ratio" in result]))
    return exit_status(results)


if __name__ == "__main__":
    sys.exit(main())
