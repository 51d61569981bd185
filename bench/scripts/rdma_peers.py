#!/usr/bin/env python3
"""Measures Farpage over RDMA beside perftest, taking turns with it, over devices of this machine.

bench/scripts/peers.py --softroce runs it in a machine with Soft-RoCE devices. Clients verify
nothing here, since a checksum costs far more there than the wire.
"""

import contextlib
import sys
import tempfile

import peer_perftest
import peer_ucx
from compare import Case, Sides, compare_all, comparison_options
from measure import Failure, bench, memory_node, require
from stopped_node import stopped_node

POOL_BYTES = 64 << 20
KIB = 1 << 10
HEADER_BYTES = 64  # in front of each page: a READ of ours is larger by as much
PATIENT = ("--set", "client.connect_ms=20000")  # UCX takes seconds there for a channel
SPIN_US = 1_000_000  # as perftest, which never sleeps


class Cases:
    def __init__(self, options, folder):
        self.program, self.seconds, self.folder = options.farpage, options.seconds, folder
        self.path = peer_perftest.Path(options.client_device, options.node_device, options.node_address)

    def fetch_over_verbs(self, node, page_bytes, batch, depth, *more):
        return self.fetch(node, page_bytes, batch, depth, "verbs", "--set", f"rdma.devices={self.path.client_device}",
                          "--set", f"rdma.spin_us={SPIN_US}", *more)

    def fetch(self, node, page_bytes, batch, depth, backend, *more):
        return bench(self.program, "fetch", "--backend", backend, "--node", node, *more, "--page-bytes", page_bytes,
                     "--batch", batch, "--depth", depth, "--connections", 1, "--pool-bytes", POOL_BYTES, "--verify", "off",
                     "--seconds", self.seconds)

    @contextlib.contextmanager
    def node(self, page_bytes, *settings):
        with memory_node(self.program, "verbs", self.folder, "--pool-bytes", str(2 * POOL_BYTES), "--page-bytes", str(page_bytes),
                         "--set", f"rdma.devices={self.path.server_device}", *settings) as (node, _):
            yield node

    @contextlib.contextmanager
    def latency(self, page_bytes, reads, header_bytes=0):
        """header_bytes: as many more in each of the peer's reads."""
        with self.node(page_bytes) as node:
            yield Sides(lambda: self.fetch_over_verbs(node, page_bytes, 1, 1)["fetch_us"]["p50"],
                        lambda: peer_perftest.read_p50_us(self.path, page_bytes + header_bytes, reads))

    @contextlib.contextmanager
    def rate(self, page_bytes, batch, depth, reads, in_flight, reads_a_doorbell, more=(), header_bytes=0):
        """header_bytes: more bytes in each of the peer's reads; its rate counts none of them."""
        read_bytes = page_bytes + header_bytes
        def peer():
            rate = peer_perftest.read_bytes_per_s(self.path, read_bytes, reads, in_flight, reads_a_doorbell)
            return rate * page_bytes / read_bytes / 1e6
        with self.node(page_bytes) as node:
            yield Sides(lambda: self.fetch_over_verbs(node, page_bytes, batch, depth, *more)["bytes_per_s"] / 1e6, peer)

    @contextlib.contextmanager
    def ucx_rate(self, page_bytes, in_flight, gets):
        device = f"{self.path.client_device}:1"
        over_rc = ("--set", "ucx.transports=rc", "--set", f"ucx.devices={device}")
        with memory_node(self.program, "ucx", self.folder, "--pool-bytes", str(2 * POOL_BYTES), "--page-bytes", str(page_bytes),
                         "--set", "ucx.trusted_clients=true", *over_rc) as (node, _):
            yield Sides(lambda: self.fetch(node, page_bytes, 1, in_flight, "ucx", *over_rc, *PATIENT)["bytes_per_s"] / 1e6,
                        lambda: peer_ucx.ucp_get("rc", page_bytes, gets, in_flight, UCX_NET_DEVICES=device,
                                                 **peer_ucx.OVER_SOFT_ROCE).bytes_per_s / 1e6)

    def push(self, node, page_bytes, pages, group):
        return bench(self.program, "push", "--backend", "verbs", "--node", node, "--set", f"rdma.devices={self.path.client_device}",
                     "--set", "client.connect_ms=20000", "--page-bytes", page_bytes, "--batch", pages, "--group", group,
                     "--pool-bytes", POOL_BYTES, "--verify", "off", "--seconds", self.seconds)

    @contextlib.contextmanager
    def pushed(self, page_bytes, pages, group):
        # All of a push must be there within `read_window`.
        with self.node(page_bytes, "--set", "node.reuse_ms=5000") as node:
            yield Sides(lambda: self.push(node, page_bytes, pages, group)["bytes_per_s"] / 1e6,
                        lambda: peer_perftest.write_bytes_per_s(self.path, page_bytes, 1000, 16) / 1e6)

    @contextlib.contextmanager
    def stopped(self):
        device = lambda name: ("--set", f"rdma.devices={name}")
        measured = []
        def share_of_ready():
            measured.append(stopped_node(self.program, "verbs", self.folder, device(self.path.server_device),
                                         (*device(self.path.client_device), *PATIENT, "--set", "client.staging_bytes=1MiB")))
            ready, pages = measured[-1][0]
            return 100 * ready / pages
        def after():
            ready, pages = (sum(counts) for counts in zip(*(late for _, late in measured)))
            if ready > 0:
                raise Failure(f"{ready:.0f} of {pages:.0f} were ready after the lease")
            return f"after the lease none of {pages:.0f}"
        yield Sides(share_of_ready, lambda: 100, after)

    def every(self):
        return [
            Case("latency-64k", "64 KiB, one page at a time, p50", "ib_read_lat", "µs", 1.10, lambda: self.latency(64 * KIB, 500), True),
            Case("latency-4k", "4 KiB, one page at a time, p50", "ib_read_lat", "µs", 1.10, lambda: self.latency(4 * KIB, 2000), True),
            Case("latency-4k-header", "the same", "ib_read_lat, header and page", "µs", None,
                 lambda: self.latency(4 * KIB, 2000, HEADER_BYTES), True),
            Case("rate-64k", "64 KiB, 16 in flight", "ib_read_bw -t 16", "MB/s", 0.95,
                 lambda: self.rate(64 * KIB, 1, 16, 1000, 16, 1)),
            Case("rate-4k", "4 KiB, batches of 1,024, drawn at random", "ib_read_bw -l 64", "MB/s", 0.95,
                 lambda: self.rate(4 * KIB, 1024, 1, 6400, 128, 64)),
            Case("rate-4k-header", "the same", "ib_read_bw -l 64, header and page", "MB/s", None,
                 lambda: self.rate(4 * KIB, 1024, 1, 6400, 128, 64, header_bytes=HEADER_BYTES)),
            Case("rate-4k-in-order", "4 KiB, batches of 1,024, in the order of their puts", "ib_read_bw -l 64", "MB/s", 0.95,
                 lambda: self.rate(4 * KIB, 1024, 1, 6400, 128, 64, more=["--in-put-order"])),
            Case("ucx-64k", "64 KiB over ucx's rc, 16 in flight", "ucp_get over rc, 16 in flight", "MB/s", 0.90,
                 lambda: self.ucx_rate(64 * KIB, 16, 1000)),
            Case("push-64k", "push of 256 × 64 KiB, an immediate on every 16th", "ib_write_bw -t 16", "MB/s", 0.90,
                 lambda: self.pushed(64 * KIB, 256, 16)),
            Case("stopped", "4 KiB, warm, ready while the node's process is stopped and the view lease lasts", "all", "%", 1.0, self.stopped),
        ]


def main():
    parser = comparison_options(__doc__)
    parser.add_argument("--client-device", default="rxe0")
    parser.add_argument("--node-device", default="rxe0")
    parser.add_argument("--node-address", default="10.9.0.1")
    options = parser.parse_args()
    require(options.farpage, {**peer_perftest.PACKAGES, **peer_ucx.PACKAGES})
    with tempfile.TemporaryDirectory(prefix="peers") as folder:
        return compare_all(Cases(options, folder).every(), options)


if __name__ == "__main__":
    sys.exit(main())
