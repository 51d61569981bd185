"""redis-py: MGET of random values."""

import store_loop
import redis

options = store_loop.parse(__doc__)
store = redis.Redis(port=int(options.where))
if options.role == "hold":
    for number in range(options.pages):
        store.set(store_loop.name(number), store_loop.content(number, options.page_bytes))
    store_loop.hold()
else:
    values = []

    def get(numbers):
        values[:] = store.mget([store_loop.name(number) for number in numbers])

    store_loop.measure(options, get, values.__getitem__)
