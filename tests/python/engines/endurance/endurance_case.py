"""Many operations on an adapter, while its node is killed, stopped, started again and replaced by
an empty one: none hangs, no byte is wrong, and nothing is left in the end.

The schedule of operations and of faults comes from a fixed seed; where a fault meets an operation
is up to the machine.
"""

import collections
import concurrent.futures
import hashlib
import os
import pathlib
import random
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "python"))
import numpy  # noqa: E402
from program import Case, stop, wait_until  # noqa: E402
from truth import assert_none_of  # noqa: E402

import farpage  # noqa: E402

PAGE_BYTES = 64 << 10
LEASE_MS, REUSE_MS = 300, 20  # of the node
LOAD_S, STORE_S = 0.2, 0.5  # the adapter's deadlines
SLACK_S = 10  # what a busy machine adds to one operation
KEYS, BATCH = 24, 8  # of each worker; at most so many pages in one operation
TRASH = 0x5A  # lies in memory that belongs to nobody
FAULTS, REOPENS = ("stop", "restart", "replace", "stop and kill"), 20
OPERATORS = "operations"  # the threads of the test
KINDS = (*["store"] * 4, *["load"] * 5, "exists", "remove")


def content(number, length=PAGE_BYTES):
    """The bytes of the page of a key: what the test compares with."""
    return numpy.frombuffer(hashlib.shake_128(b"page %d" % number).digest(length), numpy.uint8)


class Worker:
    """One thread of an engine: makes operations by its own seed, on keys of its own.

    `subject` is the adapter under its engine's own code, with store(numbers) -> [whether each is
    stored], load(numbers) -> [whether each came], which compares the bytes, exists(numbers) ->
    [whether each is there], remove(numbers) -> whether the engine was told so, and evict(), after
    which the engine has no page itself. Where `subject.hides_failed_stores`, a page whose store
    failed is not there.
    """

    def __init__(self, subject, number):
        self.subject, self.random = subject, random.Random(f"endurance {number}")
        self.keys = [1000 * number + each for each in range(KEYS)]
        self.absent = set(self.keys)  # those that must not be found
        self.counts, self.longest_s = collections.Counter(), collections.Counter()

    def run(self, operations):
        for _ in range(operations):
            self.operate(self.random.choice(KINDS), self.random.sample(self.keys, self.random.randint(1, BATCH)))

    def operate(self, kind, numbers):
        begun_s = time.monotonic()
        answer = getattr(self.subject, kind)(numbers)
        took_s = time.monotonic() - begun_s
        self.counts["operations"] += 1
        self.longest_s[kind] = max(self.longest_s[kind], took_s)
        limit_s = (STORE_S if kind in ("store", "remove") else LOAD_S) + REUSE_MS / 1000 + SLACK_S
        assert took_s < limit_s, f"{kind} of {numbers} took {took_s:.2f} s"
        if kind == "remove":
            self.absent.update(numbers if answer else ())
            return answer
        if kind == "store":
            failed = {number for number, is_good in zip(numbers, answer) if not is_good}
            self.absent -= set(numbers) - (failed if self.subject.hides_failed_stores else set())
        else:
            found = {number for number, is_good in zip(numbers, answer) if is_good}
            assert_none_of(found, self.absent, kind)
        self.counts[kind] += sum(answer)
        return answer

    def is_back(self):
        """A page goes to the node, comes from there and is removed there."""
        self.subject.evict()
        if not all(self.operate("store", self.keys[:1])):
            return False
        self.subject.evict()
        return all(self.operate("load", self.keys[:1])) and self.operate("remove", self.keys[:1])


def held():
    """What this process has of things that it could leak. The test's own threads are none."""
    descriptors, threads = collections.Counter(), len(os.listdir("/proc/self/task"))
    threads -= sum(thread.name.startswith(OPERATORS) for thread in threading.enumerate())
    for each in os.listdir("/proc/self/fd"):
        try:
            descriptors[os.readlink(f"/proc/self/fd/{each}").split(":")[0]] += 1
        except FileNotFoundError:  # of the listing itself
            continue
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mapped = sum("memfd" in line or "farpage" in line and ".so" not in line for line in maps)
    return {"threads": threads, **descriptors, "mappings of nodes": mapped, "files of shared memory": sum(str(os.getpid()) in name for name in os.listdir("/dev/shm"))}


class EnduranceCase(Case):
    """For an engine: `subjects(address)` opens the adapter and gives one subject for each thread,
    `close_all()` closes it, and `regions()` counts what one client has registered. `page_bytes` is
    the node's."""

    OPERATIONS, COUNT = 150, 5  # of each transport
    page_bytes = PAGE_BYTES

    def new_node(self, is_empty=False):
        listen = self.node.address if self.node is not None and self.listen else self.listen
        more = []
        if is_empty:  # another machine in its place; clients would refuse one that counts anew
            (self.folder / "node.state").unlink()
            more = ["--set", f"node.least_epoch={self.starts + 1}"]
        self.starts += 1
        self.node = self.start_node("--page-bytes", str(self.page_bytes), "--set", f"node.lease_ms={LEASE_MS}", "--set", f"node.reuse_ms={REUSE_MS}",
                                    *more, listen=listen, pool="128MiB")

    def kill(self):
        self.node.kill()
        self.node.communicate()

    def open_workers(self):
        subjects = self.subjects(self.node.address)
        for worker, subject in zip(self.workers, subjects):
            worker.subject = subject
        return subjects

    def test_a_node_over_shm_comes_and_goes(self):
        self.endure(None)

    def test_a_node_over_tcp_comes_and_goes(self):
        self.endure("tcp://127.0.0.1:0")

    def endure(self, listen):
        self.listen, self.starts, self.node = listen, 0, None
        self.new_node()
        self.workers = []
        self.workers = [Worker(subject, number) for number, subject in enumerate(self.open_workers())]
        self.wait_until_back()
        self.close_all()  # what starts with the first stays for the others
        before = held()
        self.open_workers()
        self.wait_until_back()
        regions = self.regions()
        chance = random.Random("faults")
        connected = held()
        each = self.OPERATIONS // self.COUNT // len(self.workers)
        with concurrent.futures.ThreadPoolExecutor(len(self.workers), thread_name_prefix=OPERATORS) as pool:
            for number in range(self.COUNT):
                until = sum(worker.counts["operations"] for worker in self.workers) + chance.randrange(each // 2) * len(self.workers)
                begun = [pool.submit(worker.run, each) for worker in self.workers]
                self.wait_for_operations(until, begun)
                self.fault(FAULTS[number % len(FAULTS)] if number % REOPENS else "reopen", begun, lasts_s=chance.choice((0, 0.1, 0.5, None)))
                for future in begun:
                    future.result()
                self.wait_until_back()
                self.assertLessEqual(self.regions(), regions + BATCH)  # of one that has just ended
                # Lanes and views come and go, but there is not one more after each fault.
                for what, count in held().items():
                    self.assertLessEqual(count, 1.5 * connected.get(what, 0) + 4, what)
        self.close_all()
        self.kill()
        self.assert_nothing_held(before)
        self.report()

    def fault(self, kind, operations, *, lasts_s):
        """None: it lasts for the rest of the operations."""
        if kind.startswith("stop"):
            stop(self.node.pid)
        else:
            self.kill()
        if lasts_s is not None:
            time.sleep(lasts_s)
        if lasts_s is None or kind == "reopen":
            concurrent.futures.wait(operations)
        if kind == "reopen":  # an engine that starts without a node
            self.close_all()
            self.open_workers()
        if kind == "stop":
            self.node.send_signal(signal.SIGCONT)
            return
        if kind == "stop and kill":
            self.kill()
        self.new_node(is_empty=kind == "replace")

    def wait_for_operations(self, count, begun):
        """So that what comes next meets some."""
        self.assertTrue(wait_until(lambda: sum(worker.counts["operations"] for worker in self.workers) >= count
                                   or any(future.done() for future in begun), 60))

    def wait_until_back(self):
        for worker in self.workers:
            self.assertTrue(wait_until(worker.is_back, 60), "the adapter has not come back to the node")

    def assert_nothing_held(self, before):
        now = {}

        def is_gone():
            now.update({what: (count, before.get(what, 0)) for what, count in held().items()})
            return all(count <= other for count, other in now.values())

        self.assertTrue(wait_until(is_gone, 20), {what: pair for what, pair in now.items() if pair[0] > pair[1]})
        left = sorted(path.name for path in self.folder.iterdir() if not path.name.endswith(".state"))
        self.assertEqual(left, ["node.sock", "tmp"] if (self.folder / "node.sock").exists() else ["tmp"])
        self.assertEqual(list(self.temporary.iterdir()), [])

    def report(self):
        counts, longest_s = collections.Counter(), collections.Counter()
        for worker in self.workers:
            counts.update(worker.counts)
            longest_s |= worker.longest_s
        print(f"{self.node.address}: {dict(counts)}, longest {({kind: round(each, 2) for kind, each in longest_s.items()})} s", flush=True)
        self.assertGreaterEqual(counts["operations"], self.OPERATIONS)
        for kind in ("store", "load"):
            self.assertGreater(counts[kind], 0)
