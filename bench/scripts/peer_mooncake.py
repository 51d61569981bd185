"""Mooncake's transfer engine as a peer: reads of another process's memory over tcp.

As a program it is the side that lends its memory: peer_mooncake.py BYTES FOLDER.
"""

import contextlib
import pathlib
import signal
import sys
import time

from measure import START_S, Failure

LENT = 7  # each byte of the memory


def engine_of():
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    if engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") != 0:
        raise Failure("mooncake's engine did not start")
    return engine


def registered(engine, length, byte):
    import numpy

    memory = numpy.full(length, byte, numpy.uint8)
    address = memory.__array_interface__["data"][0]
    if engine.register_memory(address, length) != 0:
        raise Failure("mooncake's engine did not register memory")
    return memory, address


def lend(length, folder):
    engine = engine_of()
    memory, address = registered(engine, length, LENT)
    ready = folder / "mooncake.tmp"
    ready.write_text(f"127.0.0.1:{engine.get_rpc_port()} {address}")
    ready.rename(folder / "mooncake")
    signal.pause()
    del memory


@contextlib.contextmanager
def reader(folder, page_bytes, batch):
    """Reads batches of pages, each by one call."""
    said, end = pathlib.Path(folder) / "mooncake", time.monotonic() + START_S
    while not said.exists():
        if time.monotonic() > end:
            raise Failure("the peer of mooncake did not start")
    lender, base = said.read_text().split()
    engine, base = engine_of(), int(base)
    memory, address = registered(engine, batch * page_bytes, 0)
    into, lengths = [address + n * page_bytes for n in range(batch)], [page_bytes] * batch

    def read(first):
        if engine.batch_transfer_sync_read(lender, into, [base + (first + n) * page_bytes for n in range(batch)], lengths) != 0:
            raise Failure("mooncake did not read")

    read(0)
    if (memory != LENT).any():
        raise Failure("mooncake read other bytes")
    yield read


if __name__ == "__main__":
    lend(int(sys.argv[1]), pathlib.Path(sys.argv[2]))
