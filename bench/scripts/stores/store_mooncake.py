"""Mooncake's store over TCP: batch_get_into of random values into registered memory, or
batch_put_from it."""

import ctypes
import sys

import store_loop
from mooncake.store import MooncakeDistributedStore

LOCAL_BYTES = 128 << 20

options = store_loop.parse(__doc__)
store = MooncakeDistributedStore()


def require(status, what):
    if status != 0:
        sys.exit(f"mooncake: {what} failed with {status}")


holds = options.pages * options.page_bytes * 3 // 2 if options.role in ("hold", "offer") else 0
require(store.setup("127.0.0.1", "P2PHANDSHAKE", holds, LOCAL_BYTES, "tcp", "", options.where), "setup")
if options.role == "hold":
    for page in range(options.pages):
        require(store.put(store_loop.name(page), store_loop.content(page, options.page_bytes)), "put")
    store_loop.hold()
elif options.role == "offer":
    store_loop.hold()
else:
    memory = ctypes.create_string_buffer(options.batch * options.page_bytes)
    base = ctypes.addressof(memory)
    require(store.register_buffer(base, len(memory)), "register_buffer")
    places = [base + i * options.page_bytes for i in range(options.batch)]
    sizes = [options.page_bytes] * options.batch

    def put(names):
        done = store.batch_put_from(names, places[:len(names)], sizes[:len(names)])
        if any(done):
            sys.exit(f"mooncake: batch_put_from says {done}")

    def remove(names):
        for each in names:
            require(store.remove(each), "remove")

    def get(numbers):
        got = store.batch_get_into([store_loop.name(number) for number in numbers], places, sizes)
        if got != sizes:
            sys.exit(f"mooncake: batch_get_into brought {got}")

    if options.role == "put":
        memory.raw = store_loop.content(0, options.page_bytes) * options.batch
        store_loop.measure_puts(options, put, remove)
    else:
        view = memoryview(memory).cast("B")
        store_loop.measure(options, get, lambda i: view[i * options.page_bytes:(i + 1) * options.page_bytes])
store.close()
