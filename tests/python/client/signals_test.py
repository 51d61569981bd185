"""Exceptions that a signal brings, at every line of the package and behind every call of the
library: no handle is lost or ended twice, and no memory goes before its registration."""

import asyncio
import contextlib
import gc
import linecache
import pathlib
import sys
import unittest
import unittest.mock
import warnings
import weakref

import numpy
from client_case import PAGE_BYTES, contents, farpage, key, keys
from farpage._library import c

PACKAGE = str(pathlib.Path(farpage.__file__).parent)
MAKES = {"open": "close", "register": "unregister", "fetch": "ticket_free", "put": "ticket_free", "exists": "ticket_free", "completions_new": "completions_free"}


class Ledger:
    """Which handles there are, by the calls that make and end them, and which of these went wrong.
    `interrupt_behind`: the call, counted from 0, behind which KeyboardInterrupt comes."""

    def __init__(self):
        self.handles = {name: set() for name in MAKES.values()}
        self.wrong, self.calls, self.interrupt_behind = [], 0, None
        self.patches = contextlib.ExitStack()

    def __enter__(self):
        for name in {*MAKES, *MAKES.values()}:
            self.patches.enter_context(unittest.mock.patch.object(c, name, self.kept(name, getattr(c, name))))
        return self

    def __exit__(self, *_):
        self.patches.close()

    def kept(self, name, real):
        def call(*arguments):
            handle = getattr(arguments[0], "_as_parameter_", arguments[0])
            ended = self.handles.get(name)
            if ended is not None and handle.value is not None and handle.value not in ended:
                self.wrong.append(f"{name} of a handle that is none")
                return farpage.Code.INVALID
            code = real(*arguments)
            if not code and name in MAKES:
                self.handles[MAKES[name]].add(arguments[-1]._obj.value)
            elif not code:
                ended.discard(handle.value)
            if name == "close":
                self.handles["unregister"].clear()
            self.calls += 1
            if self.calls - 1 == self.interrupt_behind:
                raise KeyboardInterrupt
            return code

        return call


def interrupted_at(line, work):
    """Does the work, with KeyboardInterrupt at a line of the package, counted from 0 as they are
    run. Returns whether there was one so late."""
    passed, last = 0, {}

    def trace(frame, event, _):
        nonlocal passed
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "call":
            last.pop(id(frame), None)
        if event == "line" and not is_left(frame):
            passed += 1
            if passed > line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    def is_left(frame):
        """Whether a `with` statement comes to its end: no signal comes there."""
        before, last[id(frame)] = last.get(id(frame), 0), frame.f_lineno
        return before > frame.f_lineno and linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return passed > line


class SignalsTest(unittest.TestCase):
    def setUp(self):
        self.swallowed = []  # Python lets no exception out of __del__
        for patch in (unittest.mock.patch.object(sys, "unraisablehook", self.swallowed.append), contextlib.closing(self.collector())):
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)
        self.ledger = Ledger()
        self.ledger.__enter__()
        self.addCleanup(self.ledger.__exit__)

    def collector(self):
        """None meanwhile: its steps would come at other lines each time."""
        gc.disable()
        yield
        gc.enable()

    def tearDown(self):
        self.assertEqual(self.ledger.wrong, [])

    def everywhere(self, work, check):
        """The work with an exception at each line, then behind each call, then with none; and after
        each the check of what it has left."""
        line = 0
        while interrupted_at(line, work):
            with self.subTest(line=line):
                check()
            line += 1
        behind = 0
        while True:
            with self.subTest(behind=behind):
                self.ledger.calls, self.ledger.interrupt_behind = 0, behind
                with contextlib.suppress(KeyboardInterrupt):
                    work()
                was_late = self.ledger.calls <= behind
                self.ledger.interrupt_behind = None
                check()
            if was_late:
                return self.assertGreater(min(line, behind), 0)
            behind += 1

    def with_client(self, submit):
        """`submit(client, memory, keep)` with memory of its own each time; what it keeps is closed
        again."""
        client = farpage.open(embedded=True, lanes=1)
        client.put(keys(0, 4), contents(0, 4), timeout_s=60).wait()
        memory, gone, kept, left = None, None, [], set()

        def work():
            nonlocal memory, gone
            memory = numpy.zeros((4, PAGE_BYTES), numpy.uint8)
            gone = weakref.ref(memory)
            submit(client, memory, kept.append)

        def check():
            nonlocal memory
            while kept:
                kept.pop().close()
            own, memory = memory, None
            # One that has ended since may have given its number to another one.
            left.intersection_update({*client._operations, *self.handles()})
            gc.collect()
            if self.swallowed:  # then the client keeps it all, to its own end
                self.swallowed.clear()
                left.update(client._operations, self.handles())
                return
            while not left.issuperset(client._operations):
                client.exists(key(1), timeout_s=60).wait()
            client.register(own).close()
            self.assertLessEqual(self.handles(), left)
            self.assertEqual(client._regions._ended, [])
            del own
            self.assertIsNone(gone())

        self.everywhere(work, check)
        self.assertEqual(client.fetch(key(1), bytearray(PAGE_BYTES), timeout_s=60).wait()["verdict"][0], farpage.Verdict.READY)
        client.close()
        self.assertEqual(self.ledger.handles["close"], set())

    def handles(self):
        return set().union(*(handles for name, handles in self.ledger.handles.items() if name != "close"))

    def test_a_region(self):
        def submit(client, memory, keep):
            region = client.register(memory)
            keep(region)
            client.fetch(key(1), region.pages([0], PAGE_BYTES), timeout_s=60).wait()
            region.close()

        self.with_client(submit)

    def test_memory_that_is_registered_for_an_operation(self):
        self.with_client(lambda client, memory, keep: client.fetch(keys(0, 4), memory, timeout_s=60).wait())

    def test_a_list_of_buffers(self):
        self.with_client(lambda client, memory, keep: client.put(keys(0, 4), [memory[1], memory[0], *memory[2:]], timeout_s=60).wait())

    def test_in_an_event_loop(self):
        async def submit(client, memory):
            await client.fetch(keys(0, 4), memory, timeout_s=60)

        self.with_client(lambda client, memory, keep: asyncio.run(submit(client, memory)))

    def test_a_client(self):
        warnings.simplefilter("ignore", ResourceWarning)
        self.addCleanup(warnings.resetwarnings)
        client = None

        def work():
            nonlocal client
            client = farpage.open(embedded={"pool_bytes": "1MiB"}, lanes=1, staging_bytes="1MiB")
            client.close()

        def check():
            nonlocal client
            if client is not None:
                client.close()
            client = None
            gc.collect()
            if self.swallowed:
                self.swallowed.clear()
                self.ledger.handles["close"].clear()
            self.assertEqual(self.ledger.handles["close"], set())

        self.everywhere(work, check)

    def test_a_region_that_is_busy_is_closed_later(self):
        """Whatever the exceptions before that."""
        with farpage.open(embedded=True, lanes=1) as client:
            memory = bytearray(64)
            region = client.register(memory)
            busy = [True]
            real = c.unregister

            def unregister(handle):
                return farpage.Code.BUSY if busy[0] else real(handle)

            def close():
                self.assertRaises(farpage.BusyError, region.close)

            def check():
                close()
                self.assertEqual(client._regions._sorted[1], [region])
                with self.assertRaises(BufferError):
                    memory.extend(b"x")

            with unittest.mock.patch.object(c, "unregister", unregister):
                line = 0
                while interrupted_at(line, close):
                    check()
                    line += 1
                busy[0] = False
                region.close()
            memory.extend(b"x")

    def test_tags_that_were_taken_are_told(self):
        class Told(Exception):
            """As a handler of signals may raise: the loop goes on."""

        real = c.completions_take

        def take(*arguments):
            self.assertEqual(real(*arguments), 0)
            raise Told

        async def fetch(client):
            said = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
            with unittest.mock.patch.object(c, "completions_take", take):
                verdicts = await asyncio.wait_for(self.again(client.exists(keys(0, 4), timeout_s=60)), 30)
            self.assertEqual({type(each) for each in said}, {Told})
            return verdicts

        with farpage.open(embedded=True, lanes=1) as client:
            self.assertEqual(len(asyncio.run(fetch(client))), 4)

    async def again(self, ticket):
        return await ticket


if __name__ == "__main__":
    unittest.main()
