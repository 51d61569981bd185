"""Farpage: fetches of random pages into registered memory, each with its verdict, or puts from it,
each acknowledged."""

import sys

import farpage
import store_loop
import numpy

options = store_loop.parse(__doc__)
client = farpage.open(options.where)
keys = [farpage.page_key("peers", store_loop.name(number)) for number in range(options.pages)]
memory = numpy.empty((options.batch, options.page_bytes), numpy.uint8)
region = client.register(memory)
if options.role == "hold":
    for number, key in enumerate(keys):
        memory[0] = numpy.frombuffer(store_loop.content(number, options.page_bytes), numpy.uint8)
        client.put([key], memory[:1]).wait()
    store_loop.hold()
elif options.role == "offer":
    store_loop.hold()
elif options.role == "put":
    memory[:] = numpy.frombuffer(store_loop.content(0, options.page_bytes), numpy.uint8)

    def put(names):
        results = client.put([farpage.page_key("peers", name) for name in names], memory[:len(names)]).wait()
        if not (results["code"] == farpage.Code.OK).all():
            sys.exit(f"farpage: {results}")

    def remove(names):
        client.remove([farpage.page_key("peers", name) for name in names]).wait()

    store_loop.measure_puts(options, put, remove)
else:

    def get(numbers):
        verdicts = client.fetch([keys[number] for number in numbers], memory).wait()
        if not (verdicts["verdict"] == farpage.Verdict.READY).all():
            sys.exit(f"farpage: {verdicts}")

    store_loop.measure(options, get, memory.__getitem__)
client.close()
