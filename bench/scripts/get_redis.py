"""redis-py: MGET of random values."""

import get_loop
import redis

options = get_loop.parse(__doc__)
store = redis.Redis(port=int(options.where))
if options.role == "hold":
    for number in range(options.pages):
        store.set(get_loop.name(number), get_loop.content(number, options.page_bytes))
    get_loop.hold()
else:
    values = []

    def get(numbers):
        values[:] = store.mget([get_loop.name(number) for number in numbers])

    get_loop.measure(options, get, values.__getitem__)
