#!/usr/bin/env python3
"""Measures the client in Python beside its peers from PyPI, taking turns with them, on this host.

bench/scripts/peers.py --python runs it. Needs a release build of farpage, Debian's redis-server,
and in the interpreter that runs it the package farpage and the peers: pip install redis
mooncake-transfer-engine-non-cuda nixl. A peer that is missing is named, and not measured.
"""

import contextlib
import functools
import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from compare import Case, Sides, compare_all, comparison_options
from measure import Failure, memory_node, require, running

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = (("64k", "64 KiB × 32", 65536, 32), ("2m", "2 MiB × 8", 2 << 20, 8))
POOL_BYTES = 64 << 20  # of pages, which each side reads in turn
PEERS = {"redis": "redis", "mooncake": "mooncake.engine", "nixl": "nixl._api"}


def rate(seconds, read, page_bytes, batch):
    """GB/s of batches, each of the pages from a number on; `read` ends once they are there."""
    pages, count, first, begun = POOL_BYTES // page_bytes, 0, 0, time.monotonic()
    while time.monotonic() < begun + seconds:
        read(first)
        count, first = count + batch, (first + batch) % pages
    return count * page_bytes / (time.monotonic() - begun) / 1e9


class Cases:
    def __init__(self, options, folder):
        self.program, self.seconds, self.folder = options.farpage, options.seconds, folder

    @contextlib.contextmanager
    def ours(self, backend, page_bytes, batch):
        import farpage
        import numpy

        pages = POOL_BYTES // page_bytes
        arguments = ("--page-bytes", str(page_bytes), "--pool-bytes", str(4 * POOL_BYTES))
        with memory_node(self.program, backend, self.folder, *arguments) as (address, _), farpage.open(address) as client:
            keys = farpage.KeySpace(model="bench").keys([str(number) for number in range(pages)])
            source = numpy.random.default_rng(1).integers(0, 256, (batch, page_bytes), numpy.uint8)
            client.register(source)
            for first in range(0, pages, batch):
                if client.put(keys[first:first + batch], source, timeout_s=30).wait()["code"].any():
                    raise Failure("pages were not put")
            found = numpy.zeros_like(source)
            client.register(found)

            def read(first):
                verdicts = client.fetch(keys[first:first + batch], found, timeout_s=30).wait()
                if (verdicts["verdict"] != farpage.Verdict.READY).any():
                    raise Failure(f"pages were not ready: {verdicts}")

            read(0)
            if (found != source).any():
                raise Failure("pages came back with other bytes")
            yield lambda: rate(self.seconds, read, page_bytes, batch)

    @contextlib.contextmanager
    def redis(self, page_bytes, batch):
        import redis

        path = f"{self.folder}/redis-{page_bytes}.sock"
        command = ["redis-server", "--port", 0, "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", self.folder]
        with running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), contextlib.closing(redis.Redis(unix_socket_path=path)) as client:
            end = time.monotonic() + 30
            while time.monotonic() < end:
                with contextlib.suppress(redis.ConnectionError):
                    client.ping()
                    break
            value, pages = os.urandom(page_bytes), POOL_BYTES // page_bytes
            names = [b"%d" % number for number in range(pages)]
            for name in names:
                client.set(name, value)

            def read(first):
                if any(got != value for got in client.mget(names[first:first + batch])[:1]):
                    raise Failure("redis gave another value")

            yield lambda: rate(self.seconds, read, page_bytes, batch)

    @contextlib.contextmanager
    def served(self, peer, page_bytes, batch):
        """A peer whose memory another process lends: peer_NAME.py in both of them."""
        module, folder = importlib.import_module(f"peer_{peer}"), tempfile.mkdtemp(dir=self.folder)
        with running([sys.executable, HERE / f"peer_{peer}.py", POOL_BYTES, folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            with module.reader(folder, page_bytes, batch) as read:
                yield lambda: rate(self.seconds, read, page_bytes, batch)

    @contextlib.contextmanager
    def beside(self, peer, page_bytes, batch):
        if importlib.util.find_spec(PEERS[peer].partition(".")[0]) is None:
            raise Failure(f"{sys.executable} has no {peer}")
        theirs = self.redis if peer == "redis" else functools.partial(self.served, peer)
        with self.ours("shm", page_bytes, batch) as ours, theirs(page_bytes, batch) as peers:
            yield Sides(ours, peers)

    def every(self):
        names = {"redis": "redis-py, MGET over a Unix socket", "mooncake": "Mooncake's transfer engine over tcp", "nixl": "NIXL over UCX"}
        return [Case(f"{peer}-{short}", f"{shape}, in Python over shm", name, "GB/s", 1.0,
                     functools.partial(self.beside, peer, page_bytes, batch))
                for peer, name in names.items() for short, shape, page_bytes, batch in SHAPES]


def main():
    options = comparison_options(__doc__).parse_args()
    require(options.farpage, {"redis-server": "redis-server"})
    with tempfile.TemporaryDirectory(prefix="peers") as folder:
        return compare_all(Cases(options, folder).every(), options)


if __name__ == "__main__":
    sys.exit(main())
