"""NIXL over UCX: prepared READs of random pages. It has no keys: a page is an index into a list."""

import os
import pathlib
import sys

import store_loop
import numpy
from nixl._api import nixl_agent, nixl_agent_config

options = store_loop.parse(__doc__)
agent = nixl_agent(options.role, nixl_agent_config(backends=["UCX"]))
shared = pathlib.Path(options.where)  # a folder: who holds writes there what who gets needs
rows = options.pages if options.role == "hold" else options.batch
memory = numpy.empty((rows, options.page_bytes), numpy.uint8)


def descriptors(address, count):
    return [(address + i * options.page_bytes, options.page_bytes, 0) for i in range(count)]


if options.role == "hold":
    for number in range(options.pages):
        memory[number] = numpy.frombuffer(store_loop.content(number, options.page_bytes), numpy.uint8)
registered = agent.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
if options.role == "hold":
    (shared / "address").write_text(str(memory.ctypes.data))
    (shared / "metadata").write_bytes(agent.get_agent_metadata())
    store_loop.hold()
else:
    holder = agent.add_remote_agent((shared / "metadata").read_bytes())
    theirs = agent.prep_xfer_dlist(holder, descriptors(int((shared / "address").read_text()), options.pages), "DRAM")
    ours = agent.prep_xfer_dlist("NIXL_INIT_AGENT", descriptors(memory.ctypes.data, options.batch), "DRAM")
    every = list(range(options.batch))

    def get(numbers):
        handle = agent.make_prepped_xfer("READ", ours, every, theirs, numbers)
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        if state != "DONE":
            sys.exit(f"nixl: a transfer ended as {state}")
        agent.release_xfer_handle(handle)

    store_loop.measure(options, get, memory.__getitem__)
    agent.release_dlist_handle(ours)
    agent.release_dlist_handle(theirs)
    agent.remove_remote_agent(holder)
agent.deregister_memory(registered)
# Its threads may crash while the interpreter ends.
sys.stdout.flush()
os._exit(0)
