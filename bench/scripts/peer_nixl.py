"""NIXL as a peer: reads of another process's memory, by an agent on each side (backend UCX).

As a program it is the side that lends its memory: peer_nixl.py BYTES FOLDER.
"""

import contextlib
import pathlib
import sys
import time

from measure import START_S, Failure

LENT = 7  # each byte of the memory
REFUSED = "ERR"


def agent_of(name):
    from nixl._api import nixl_agent, nixl_agent_config

    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


def memory_of(length, byte):
    import numpy

    return numpy.full(length, byte, numpy.uint8)


def address_of(memory):
    return memory.__array_interface__["data"][0]


def lend(length, folder):
    agent, memory = agent_of("lender"), memory_of(length, LENT)
    agent.register_memory([(address_of(memory), length, 0, "")], "DRAM")
    ready = folder / "nixl.tmp"
    ready.write_bytes(address_of(memory).to_bytes(8, "little") + agent.get_agent_metadata())
    ready.rename(folder / "nixl")
    while True:
        agent.get_new_notifs()  # some paths need the peer's progress
        time.sleep(1)


@contextlib.contextmanager
def reader(folder, page_bytes, batch):
    """Reads batches of pages; each call is one transfer, from its descriptors on."""
    said, end = pathlib.Path(folder) / "nixl", time.monotonic() + START_S
    while not said.exists():
        if time.monotonic() > end:
            raise Failure("the peer of nixl did not start")
    said = said.read_bytes()
    base, agent, memory = int.from_bytes(said[:8], "little"), agent_of("reader"), memory_of(batch * page_bytes, 0)
    agent.register_memory([(address_of(memory), memory.nbytes, 0, "")], "DRAM")
    lender = agent.add_remote_agent(said[8:])
    into = agent.get_xfer_descs([(address_of(memory) + n * page_bytes, page_bytes, 0) for n in range(batch)], "DRAM")

    def read(first):
        source = agent.get_xfer_descs([(base + (first + n) * page_bytes, page_bytes, 0) for n in range(batch)], "DRAM")
        handle = agent.initialize_xfer("READ", into, source, lender)
        state = agent.transfer(handle)
        while state not in ("DONE", REFUSED):
            state = agent.check_xfer_state(handle)
        agent.release_xfer_handle(handle)
        if state == REFUSED:
            raise Failure("nixl did not read")

    read(0)
    if (memory != LENT).any():
        raise Failure("nixl read other bytes")
    yield read


if __name__ == "__main__":
    lend(int(sys.argv[1]), pathlib.Path(sys.argv[2]))
