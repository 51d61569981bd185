"""Python programs that get pages from a store: their arguments, and how they measure.

Each runs in an interpreter that has its store's package, so this module needs the standard library
alone.
"""

import argparse
import random
import sys
import time

WARM_S = 0.3


def parse(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("role", choices=["hold", "get"], help="hold: fill the store, and keep it until stdin ends")
    parser.add_argument("where", help="of the store")
    parser.add_argument("--page-bytes", type=int, required=True)
    parser.add_argument("--pages", type=int, required=True, help="in the store, named page/0, page/1 …")
    parser.add_argument("--batch", type=int, required=True, help="pages of one get")
    parser.add_argument("--seconds", type=float, default=3)
    return parser.parse_args()


def name(number):
    return f"page/{number}"


def content(number, page_bytes):
    return random.Random(number).randbytes(min(page_bytes, 4096)) * (page_bytes // min(page_bytes, 4096))


def hold():
    """Says that the store is filled, and waits until stdin ends."""
    print("ready", flush=True)
    sys.stdin.read()


def measure(options, get, page_at):
    """Prints bytes a second. `get(numbers)` brings pages, of which `page_at(i)` is the i-th."""
    draw = random.Random(7)
    def once():
        numbers = draw.sample(range(options.pages), options.batch)
        get(numbers)
        return numbers
    def check(numbers):
        for i in (0, len(numbers) - 1):
            if bytes(page_at(i)) != content(numbers[i], options.page_bytes):
                sys.exit(f"{name(numbers[i])} did not come as it was put")
    end = time.perf_counter() + WARM_S
    while time.perf_counter() < end:
        check(once())
    batches, begun = 0, time.perf_counter()
    while True:
        last = once()
        batches += 1
        took_s = time.perf_counter() - begun
        if took_s >= options.seconds:
            break
    check(last)
    print(batches * options.batch * options.page_bytes / took_s)
