"""Python programs that get pages from a store, or put them: their arguments, and how they measure.

Each runs in an interpreter that has its store's package, so this module needs the standard library
alone.
"""

import argparse
import random
import sys
import time

WARM_S = 0.3
REUSE_S = 0.5  # until a store may use again what was removed


def parse(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("role", choices=["hold", "offer", "get", "put"],
                        help="hold: fill the store, and keep it until stdin ends; offer: keep it empty")
    parser.add_argument("where", help="of the store")
    parser.add_argument("--page-bytes", type=int, required=True)
    parser.add_argument("--pages", type=int, required=True, help="in the store, named page/0, page/1 …")
    parser.add_argument("--batch", type=int, required=True, help="pages of one get, or put")
    parser.add_argument("--seconds", type=float, default=3)
    return parser.parse_args()


def name(number):
    return f"page/{number}"


def content(number, page_bytes):
    return random.Random(number).randbytes(min(page_bytes, 4096)) * (page_bytes // min(page_bytes, 4096))


def hold():
    """Says that the store is there, and waits until stdin ends."""
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


def measure_puts(options, put, remove):
    """Prints bytes a second. `put(names)` stores pages that the store has not; `remove(names)` is
    not part of the time."""
    names = [name(number) for number in range(options.pages)]
    batches = [names[first:first + options.batch] for first in range(0, options.pages, options.batch)]
    def once():
        begun = time.perf_counter()
        for batch in batches:
            put(batch)
        took_s = time.perf_counter() - begun
        for batch in batches:
            remove(batch)
        time.sleep(REUSE_S)
        return took_s
    once()
    rounds, sum_s = 0, 0
    while sum_s < options.seconds:
        sum_s += once()
        rounds += 1
    print(rounds * options.pages * options.page_bytes / sum_s)
