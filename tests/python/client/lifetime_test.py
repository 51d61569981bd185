"""Memory stays where it is while anything may write to it, and nothing is left behind."""

import concurrent.futures
import gc
import mmap
import os
import pathlib
import signal
import sys
import tempfile
import unittest
import unittest.mock
import warnings
import weakref

import numpy
from client_case import PAGE_BYTES, ClientCase, content, farpage, key, run_script
from farpage.buffers import Regions
from program import Case, stop_node, wait_until

STOPPED = "/nowhere"  # of nodes


class Kept:
    """A page's memory that tells when it has gone."""

    def __init__(self):
        self.array = numpy.zeros(PAGE_BYTES, numpy.uint8)
        self.gone = weakref.ref(self.array)


class LifetimeTest(ClientCase):
    def setUp(self):
        self.put(key(1), content(1))
        self.settle()

    def test_a_buffer_that_is_dropped_lives_until_the_operation_is_released(self):
        kept = Kept()
        ticket = self.client.fetch(key(1), kept.array, timeout_s=30)
        gone = kept.gone
        del kept
        gc.collect()
        ticket.wait_released()
        self.assertEqual(gone().tobytes(), content(1))
        del ticket
        self.assertIsNone(gone())

    def test_a_ticket_that_is_dropped_lends_its_memory_as_long_as_it_must(self):
        for _ in range(200):
            self.client.fetch(key(1), numpy.zeros(PAGE_BYTES, numpy.uint8), timeout_s=30)
        kept = Kept()
        gone = kept.gone
        self.client.fetch(key(1), kept.array, timeout_s=30)
        del kept
        while gone() is not None:  # the next operations let it go
            self.client.exists(key(1)).wait()
        self.settle()
        self.assertFalse(self.client._regions._sorted[0])

    def test_a_buffer_is_not_resized_or_closed_while_it_is_lent(self):
        resizable, mapped = bytearray(PAGE_BYTES), mmap.mmap(-1, PAGE_BYTES)
        for buffer, attempt in ((resizable, lambda: resizable.extend(b"x")), (mapped, mapped.close)):
            ticket = self.client.fetch(key(1), buffer, timeout_s=30)
            with self.assertRaises(BufferError):
                attempt()
            ticket.wait()
            ticket.wait_released()
            self.assertEqual(bytes(buffer), content(1))
            del ticket
            attempt()

    def test_a_region_keeps_its_buffer_until_it_is_closed(self):
        kept = Kept()
        gone = kept.gone
        region = self.client.register(kept.array)
        del kept
        self.assertIsNotNone(gone())
        places = region.pages([0], PAGE_BYTES)
        self.fetch(key(1), places)
        region.close()
        region.close()
        self.assertIsNone(gone())
        with self.assertRaisesRegex(farpage.InvalidError, "the region of these pages is closed"):
            self.client.fetch(key(1), places)  # other memory may lie there

    def test_a_closed_region_lets_its_buffer_go(self):
        client = farpage.open(embedded=True, lanes=1)
        self.addCleanup(client.close)
        resizable, mapped, left = bytearray(64), mmap.mmap(-1, PAGE_BYTES), bytearray(64)
        closed = client.register(resizable)
        closed.close()
        resizable.extend(b"x")
        with client.register(mapped) as region:
            pass
        mapped.close()
        registered = client.register(left)
        client.close()
        left.extend(b"x")
        for each in (closed, region, registered):
            each.close()

    def test_a_region_waits_for_operations_whose_tickets_were_dropped(self):
        memory = numpy.zeros((64, PAGE_BYTES), numpy.uint8)
        for _ in range(20):
            with self.client.register(memory):
                self.client.fetch([key(1)] * 64, memory, timeout_s=30)

    def test_a_submission_asks_for_a_few_of_the_dropped_tickets(self):
        """However many there are, and for all of them in turn."""
        for _ in range(50):
            self.client.put(key(1), content(1), timeout_s=30)
        asked, real, is_over = [], farpage._library.c.ticket_released, False

        def released(operation):
            asked.append(operation.handle.value)
            return real(operation) if is_over else 0

        with unittest.mock.patch.object(farpage._library.c, "ticket_released", released):
            for _ in range(50):  # none is released, as it seems
                self.client.put(key(1), content(1), timeout_s=30)
            dropped = set(asked)
            self.assertGreaterEqual(len(dropped), 50)
            ticket = self.client.exists(key(1))
            seen, most = set(), 0
            for _ in range(len(dropped)):
                asked.clear()
                held = self.client.exists(key(1))
                most = max(most, len(asked))
                seen.update(asked)
                asked.clear()
                held.wait()
                del held
            self.assertLessEqual(most, 8)
            self.assertLessEqual(dropped, seen)
            is_over = True
            ticket.wait()
            del ticket
            self.settle()

    def test_places_of_dropped_tickets_are_taken_at_need(self):
        """Also if a submission has not looked at them yet."""
        with farpage.open(embedded=True, lanes=1, queue_depth=64) as client:
            tickets = [client.exists(key(1)) for _ in range(64)]
            for ticket in tickets:
                ticket.wait_released()
            with unittest.mock.patch.object(farpage._library.c, "ticket_released", lambda _: 0):
                del ticket, tickets
            client._in_turn = iter([0] * 64)
            self.assertEqual(client.exists(key(1)).wait()["reason"][0], farpage.Reason.MISS)

    def test_a_view_of_the_same_buffer_shares_its_registration(self):
        memory = bytearray(PAGE_BYTES)
        tickets = [self.client.fetch(key(1), memory, timeout_s=30) for _ in range(8)]
        self.assertEqual(len(self.client._regions._sorted[0]), 1)
        for ticket in tickets:
            ticket.wait()
            ticket.wait_released()
        del ticket, tickets
        self.assertEqual(self.client._regions._sorted, ([], []))

    def test_a_list_that_fails_in_the_middle_registers_nothing(self):
        memory = numpy.zeros(2 * PAGE_BYTES, numpy.uint8)
        with self.assertRaises(farpage.RegisteredError):
            self.client.fetch([key(1), key(2)], [memory[:PAGE_BYTES], memory[100:]])
        with self.assertRaises(farpage.InvalidError):
            self.client.fetch([key(1)], [memory, memory])
        self.assertEqual(self.client._regions._sorted, ([], []))

    def interrupted(self, name, submit):
        """As if Ctrl-C had come during the call."""
        real = getattr(farpage._library.c, name)

        def call(*arguments):
            self.assertEqual(real(*arguments), 0)
            raise KeyboardInterrupt

        with unittest.mock.patch.object(farpage._library.c, name, call), self.assertRaises(KeyboardInterrupt):
            submit()
        self.settle()
        self.assertEqual(self.client._regions._sorted, ([], []))

    def test_ctrl_c_during_a_submission_keeps_its_memory_and_its_place(self):
        free = self.client.statistics().put_tickets_free  # or one more: counts lag
        for _ in range(3):
            self.interrupted("put", lambda: self.client.put(key(1), bytearray(content(1)), timeout_s=30))
            self.interrupted("remove", lambda: self.client.remove(key(2), timeout_s=30))
        self.assertTrue(wait_until(lambda: self.client.statistics().put_tickets_free >= free), self.client.statistics())

    def test_ctrl_c_as_a_lock_is_taken_leaves_it_free(self):
        regions = Regions(self.client)

        class Interrupted:
            def __init__(self, lock):
                self.lock = lock

            def __getattr__(self, name):
                return getattr(self.lock, name)

            def acquire(self, **how):
                self.lock.acquire(**how)
                raise KeyboardInterrupt

        with unittest.mock.patch.object(regions, "_lock", Interrupted(regions._lock)), self.assertRaises(KeyboardInterrupt):
            regions._ended = [[]]
            regions._try_to_give_back()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            self.assertTrue(pool.submit(regions._lock.acquire, timeout=10).result())
            pool.submit(regions._lock.release).result()

    def test_what_is_registered_for_an_operation_is_never_seen_as_registered_for_good(self):
        seen, real = [], self.client._regions._register

        def register(region):
            seen.append(region._is_borrowed)
            real(region)

        with unittest.mock.patch.object(self.client._regions, "_register", register):
            self.put(key(1), bytearray(content(1)))
        self.assertEqual(seen, [True])


class ClosingTest(unittest.TestCase):
    def test_a_closed_client_refuses_and_its_tickets_keep_their_answers(self):
        client = farpage.open(embedded=True)
        region = client.register(numpy.zeros(64))
        ticket = client.put(key(1), content(1), timeout_s=30)
        client.close()
        client.close()
        region.close()
        self.assertEqual(ticket.wait()["code"][0], farpage.Code.OK)
        for call in (lambda: client.exists(key(1)), lambda: client.register(bytearray(1)), lambda: client.fetch(key(1), bytearray(8)),
                     lambda: client.page_bytes, lambda: client.leading([key(1)])):
            with self.assertRaisesRegex(farpage.InvalidError, "closed"):
                call()

    def test_a_client_that_is_dropped_closes_itself_and_warns(self):
        descriptors = len(os.listdir("/proc/self/fd"))
        with self.assertWarns(ResourceWarning):
            farpage.open(embedded=True)
            gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), descriptors)

    def test_a_client_that_is_dropped_with_operations_under_way(self):
        result = run_script("""
import gc, warnings
warnings.simplefilter("ignore", ResourceWarning)
import farpage
from client_case import content, key
for _ in range(5):
    client = farpage.open(embedded=True, lanes=1)
    client.register(bytearray(64))
    for n in range(32):
        client.put(key(n), content(n), timeout_s=30)
    del client
    gc.collect()
""")
        self.assertEqual((result.returncode, result.stderr[:2000]), (0, ""))

    def test_the_collector_may_take_operations_before_their_client(self):
        with farpage.open(embedded=True, lanes=1) as client:
            memory = bytearray(content(1))
            ticket = client.put(key(1), memory, timeout_s=30)
            ticket.wait_released()
            ticket._operation.__del__()
            self.assertEqual(client._operations, {})
            with self.assertRaises(farpage.InvalidError):
                ticket.result()
            memory.extend(b"x")

    def test_a_client_that_is_dropped_is_closed_also_where_warnings_are_errors(self):
        client = farpage.open(embedded=True)
        with warnings.catch_warnings(), self.assertRaises(ResourceWarning):
            warnings.simplefilter("error", ResourceWarning)
            client.__del__()
        self.assertIsNone(client._handle)

    def test_two_clients_share_nothing(self):
        with farpage.open(embedded=True) as one, farpage.open(embedded=True) as other:
            memory = bytearray(content(1))
            one.register(memory)
            other.register(memory)
            self.assertEqual(one.put(key(1), memory, timeout_s=30).wait()["code"][0], 0)
            self.assertEqual((one.leading([key(1)]), other.leading([key(1)])), (1, 0))

    def test_many_of_everything_leave_nothing_behind(self):
        def once():
            with farpage.open(embedded={"pool_bytes": "1MiB"}, staging_bytes="1MiB", lanes=1) as client:
                memory = numpy.zeros(4096, numpy.uint8)
                client.register(memory)
                client.put(key(1), memory, timeout_s=30).wait()
                client.fetch(key(1), bytearray(4096), timeout_s=30).wait()
                client.exists(key(1))

        def resident_bytes():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        def counts():
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

        for _ in range(20):
            once()
        before, descriptors_and_threads = resident_bytes(), counts()
        for _ in range(int(os.environ.get("FARPAGE_OPENS", "60"))):
            once()
        # Of a thread that was joined the kernel lists the task for a moment still.
        self.assertTrue(wait_until(lambda: all(now <= then for now, then in zip(counts(), descriptors_and_threads))), (counts(), descriptors_and_threads))
        self.assertLess(resident_bytes() - before, 16 << 20)


class StoppedNodeTest(Case):
    def test_a_region_in_use_is_busy(self):
        node = self.start_node()
        with farpage.open(str(node.socket)) as client:
            memory = numpy.zeros((8, PAGE_BYTES), numpy.uint8)
            region = client.register(memory)
            stop_node(self, node)
            ticket = client.put([key(n) for n in range(8)], memory, timeout_s=60)
            with self.assertRaises(farpage.BusyError):
                region.close()
            node.send_signal(signal.SIGCONT)
            ticket.wait_released()
            region.close()
            self.assertEqual(client._regions._sorted, ([], []))


class OpeningTest(unittest.TestCase):
    def test_wrong_settings_are_refused_by_name(self):
        for sentence, arguments in (("lane", {"embedded": True, "lanez": 2}), ("lanes", {"embedded": True, "lanes": 65}), ("client.node", {}), ("tabel", {"tabel": {"x": 1}}),
                                    ("neither text", {"embedded": True, "lanes": object()}), ("neither text", {"node": "\ud800"}),
                                    ("alone", {"config": "x", "embedded": True}), ("alone", {"config": "x", "embedded": {}}), ("null", {"config": "a\0b"}),
                                    ("no path", {"config": 7}), ("no path", {"config": "\ud800"}), ("client.node", {"embedded": None}), ("client.node", {"embedded": 0})):
            with self.assertRaisesRegex(farpage.InvalidError, sentence):
                farpage.open(**arguments)

    def test_threads_wait_for_python_as_long_as_it_says(self):
        said = []

        class Library:
            def open(self, text, _):
                said.append(text.decode())
                return farpage.Code.INVALID

            def close(self, _):
                pass

        with unittest.mock.patch("farpage.client.c", Library()):
            for settings in ({}, {"spin_us": 7}):
                with self.assertRaises(farpage.InvalidError):
                    farpage.open("node.sock", **settings)
        self.assertIn('"spin_us" = 200\n', said[0])
        self.assertIn('"spin_us" = 7\n', said[1])

    def test_no_node_and_no_file(self):
        for arguments in ({"node": f"{STOPPED}.sock"}, {"node": "tcp://127.0.0.1:1"}):
            with self.assertRaises((farpage.UnavailableError, farpage.FarpageTimeoutError)) as raised:
                farpage.open(**arguments, connect_ms=50)
            self.assertIn(raised.exception.code, (farpage.Code.UNAVAILABLE, farpage.Code.TIMEOUT))
        with self.assertRaises(farpage.NotFoundError):
            farpage.open(config=f"{STOPPED}.toml")

    def test_text_is_taken_as_it_is(self):
        for text in ('quote " and \\ and \n and ü and 模 and \x7f and \U0001f0a1', "'''", "a\0b"):
            with self.assertRaises(farpage.FarpageError) as raised:
                farpage.open(node=text, connect_ms=50)
            self.assertNotIn("TOML", str(raised.exception))

    def test_a_node_of_this_process(self):
        with farpage.Node(pool_bytes="4MiB", page_bytes=4096) as node:
            one, other = node.open(), node.open()
            with one, other:
                self.assertEqual((one.page_bytes, other.page_bytes), (4096, 4096))
                one.put(key(1), content(1, 4096), timeout_s=30).wait()
                into = bytearray(4096)
                self.assertEqual(other.fetch(key(1), into, timeout_s=30).wait()["verdict"][0], farpage.Verdict.READY)
                self.assertEqual(bytes(into), content(1, 4096))

    def test_a_node_without_a_name_is_this_processs_alone_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, XDG_RUNTIME_DIR=folder):
            served = pathlib.Path(folder, "farpage")
            with farpage.Node(pool_bytes="1MiB") as node, farpage.Node(pool_bytes="1MiB") as other, node.open() as client:
                self.assertEqual((node.name, other.name), (None, None))
                names = sorted(each.name for each in served.iterdir())
                self.assertEqual(len(names), 2)
                for name in names:
                    self.assertRegex(name, r"^[0-9a-f]{32}\.sock$")
                self.assertEqual(client.put(key(1), content(1), timeout_s=30).wait()["code"][0], farpage.Code.OK)
            self.assertEqual(list(served.iterdir()), [])
            with self.assertRaises(farpage.InvalidError):
                farpage.Node(pool_bytes="much")
            result = run_script("import farpage; node = farpage.Node(pool_bytes='1MiB'); client = node.open()")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(list(served.iterdir()), [])

    def test_a_node_with_a_name_has_it(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, XDG_RUNTIME_DIR=folder):
            with farpage.Node(pool_bytes="1MiB", name="ours") as node, farpage.open(embedded={"name": "ours", "pool_bytes": "1MiB"}) as other:
                self.assertEqual(node.name, "ours")
                other.put(key(1), content(1), timeout_s=30).wait()
                with node.open() as client:
                    self.assertEqual(client.leading([key(1)]), 1)

    def test_the_package_loads_little_and_says_what_it_has(self):
        self.assertRegex(farpage.__version__, r"^\d+\.\d+\.\d+$")
        self.assertLessEqual(set(farpage.__all__), set(dir(farpage)))
        for name in farpage.__all__:
            self.assertIsNotNone(getattr(farpage, name))
        with self.assertRaises(AttributeError):
            _ = farpage.opne


if __name__ == "__main__":
    warnings.simplefilter("error", ResourceWarning)
    sys.exit(unittest.main())
