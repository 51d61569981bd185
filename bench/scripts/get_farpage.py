"""Farpage: fetches of random pages into registered memory, each with its verdict."""

import sys

import farpage
import get_loop
import numpy

options = get_loop.parse(__doc__)
client = farpage.open(options.where)
keys = [farpage.page_key("peers", get_loop.name(number)) for number in range(options.pages)]
memory = numpy.empty((options.batch, options.page_bytes), numpy.uint8)
region = client.register(memory)
if options.role == "hold":
    for number, key in enumerate(keys):
        memory[0] = numpy.frombuffer(get_loop.content(number, options.page_bytes), numpy.uint8)
        client.put([key], memory[:1]).wait()
    get_loop.hold()
else:

    def get(numbers):
        verdicts = client.fetch([keys[number] for number in numbers], memory).wait()
        if not (verdicts["verdict"] == farpage.Verdict.READY).all():
            sys.exit(f"farpage: {verdicts}")

    get_loop.measure(options, get, memory.__getitem__)
client.close()
