"""Waits: in event loops and in threads, with the GIL released, beside nodes that stop and die."""

import asyncio
import concurrent.futures
import gc
import os
import signal
import sys
import threading
import time
import types
import unittest
import unittest.mock

import numpy
from client_case import PAGE_BYTES, ClientCase, content, contents, farpage, key, keys
from farpage.loops import completions_here
from program import Case, stop_node, wait_until

READY = farpage.Verdict.READY


class LoopTest(ClientCase):
    def setUp(self):
        self.put(keys(0, 64), contents(0, 64))

    def test_tickets_are_awaited(self):
        async def fetch_one(number):
            into = bytearray(PAGE_BYTES)
            verdicts = await self.client.fetch(key(number), into, timeout_s=30)
            self.assertEqual((verdicts["verdict"][0], bytes(into)), (READY, content(number)))

        async def all_at_once():
            await asyncio.gather(*(fetch_one(number) for number in range(64)))
            ticket = self.client.exists(keys(0, 65), timeout_s=30)
            first, second = await asyncio.gather(self.again(ticket), self.again(ticket))
            self.assertEqual(first.tobytes(), second.tobytes())
            self.assertEqual((await ticket)["verdict"].sum(), 64 * 1 + 2)
            return await self.client.remove([key(1000)], timeout_s=30)

        for _ in range(3):  # each with a loop of its own
            self.assertEqual(asyncio.run(all_at_once()), 0)

    async def again(self, ticket):
        return await ticket

    def test_a_ticket_of_elsewhere_is_awaited_too(self):
        async def wait(ticket):
            return await ticket

        self.assertEqual(asyncio.run(wait(self.client.exists(key(1), timeout_s=30)))["verdict"][0], READY)

        async def submit():
            return self.client.fetch(key(1), bytearray(PAGE_BYTES), timeout_s=30)

        self.assertEqual(asyncio.run(wait(asyncio.run(submit())))["verdict"][0], READY)

    def test_an_await_that_is_cancelled_leaves_the_operation_whole(self):
        async def cancel():
            into = bytearray(PAGE_BYTES)
            ticket = self.client.fetch(key(2), into, timeout_s=30)
            waiting = asyncio.ensure_future(self.again(ticket))
            await asyncio.sleep(0)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertEqual((await ticket)["verdict"][0], READY)
            return into

        self.assertEqual(bytes(asyncio.run(cancel())), content(2))

    def test_a_loop_that_ends_with_operations_under_way(self):
        async def leave():
            for number in range(64):
                self.client.fetch(key(number), numpy.zeros(PAGE_BYTES, numpy.uint8), timeout_s=30)

        for _ in range(10):
            asyncio.run(leave())
            while self.client._operations:
                self.client.exists(key(0)).wait()
        self.assertEqual(self.client.leading(keys(0, 64)), 64)

    def test_a_refused_submission_in_a_loop(self):
        async def refuse():
            with self.assertRaises(farpage.InvalidError):
                self.client.fetch(key(1), bytearray(1), min_version=[1], timeout_s=-1)
            self.assertEqual(completions_here()._watches, {})
            with farpage.open(embedded=True, lanes=1, queue_depth=1) as client:
                ticket = client.exists(key(1))
                with self.assertRaises(farpage.ExhaustedError):
                    client.exists(key(1))
                await ticket

        asyncio.run(refuse())

    def test_another_thread_imports_asyncio_or_torch_meanwhile(self):
        for name in ("asyncio", "torch"):
            with unittest.mock.patch.dict(sys.modules, {name: types.ModuleType(name)}):
                self.assertEqual(self.client.fetch(key(1), bytearray(PAGE_BYTES), timeout_s=30).wait()["verdict"][0], READY)

    def test_no_loop_is_a_sentence(self):
        with self.assertRaisesRegex(farpage.InvalidError, "wait"):
            self.client.exists(key(1)).__await__().send(None)


class ThreadsTest(ClientCase):
    def test_threads_share_a_client(self):
        def work(thread):
            names, pages = keys(1000 * thread, 8), contents(1000 * thread, 8)
            for _ in range(20):
                self.put(names, pages)
                into = numpy.zeros_like(pages)
                self.fetch(names, into)
                self.assertEqual(into.tobytes(), pages.tobytes())

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for future in [pool.submit(work, thread) for thread in range(8)]:
                future.result(timeout=100)

    def test_threads_share_a_ticket(self):
        for _ in range(20):
            ticket = self.client.exists(keys(0, 8), timeout_s=30)
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(lambda _, ticket=ticket: ticket.wait().tobytes(), range(4)))
            self.assertEqual(len(set(answers)), 1)

    def test_one_thread_closes_while_others_submit(self):
        for _ in range(20):
            client = farpage.open(embedded=True, lanes=1)
            begun = threading.Barrier(5)

            def submit(client=client, begun=begun):
                begun.wait()
                try:
                    while True:
                        client.fetch(key(1), bytearray(4096), timeout_s=30).wait()
                except farpage.FarpageError as error:
                    return error

            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                running = [pool.submit(submit) for _ in range(4)]
                begun.wait()
                client.close()
                for each in running:
                    self.assertRegex(str(each.result(timeout=100)), "closed")


class StoppedNodeTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.start_node()
        self.client = farpage.open(str(self.node.socket))
        self.addCleanup(self.client.close)

    def test_another_thread_runs_while_one_waits(self):
        stop_node(self, self.node)
        ticket = self.client.put(key(1), content(1), timeout_s=60)
        entered, steps = threading.Event(), []

        def wait():
            entered.set()
            # In one slice, of which ticket.wait() has many.
            return farpage._library.c.ticket_wait(ticket._operation, 60_000_000)

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(wait)
            entered.wait()
            while len(steps) < 1_000_000:  # with the GIL held in the wait, these would be after it
                steps.append(None)
            self.assertFalse(waiting.done())
            self.node.send_signal(signal.SIGCONT)
            self.assertEqual(waiting.result(timeout=60), farpage.Code.OK)

    def test_waits_end_in_time(self):
        stop_node(self, self.node)
        ticket = self.client.put(key(1), content(1), timeout_s=60)
        for wait in (ticket.wait, ticket.wait_released):
            with self.assertRaisesRegex(farpage.FarpageTimeoutError, "wait for it again"):
                wait(0.05)
        with self.assertRaises(farpage.BusyError):
            ticket.result()
        self.assertEqual(ticket.why(), "")
        late = self.client.put(key(2), content(2), timeout_s=0.2)
        self.assertEqual(late.wait()["code"][0], farpage.Code.TIMEOUT)
        self.assertRegex(late.why(), "memory node")

    def test_loops_that_end_with_a_cancelled_await_leave_nothing(self):
        async def give_up(ticket=None):
            async def wait():
                await (ticket or self.client.put(key(1), content(1), timeout_s=60))

            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(wait(), 0.01)

        def descriptors():
            gc.collect()
            return len(os.listdir("/proc/self/fd"))

        asyncio.run(asyncio.sleep(0))
        before = descriptors()
        stop_node(self, self.node)
        for _ in range(20):
            asyncio.run(give_up())
        elsewhere = self.client.put(key(1), content(1), timeout_s=60)
        asyncio.run(give_up(elsewhere))
        self.assertFalse(elsewhere.done)  # the loop did not wait for it
        self.node.send_signal(signal.SIGCONT)
        del elsewhere
        while self.client._operations:
            self.client.exists(key(1), timeout_s=60).wait()
        self.assertTrue(wait_until(lambda: descriptors() <= before), (descriptors(), before))

    def test_a_remove_that_is_not_acknowledged_is_an_error(self):
        stop_node(self, self.node)
        with self.assertRaises(farpage.FarpageTimeoutError) as raised:
            self.client.remove(key(1), timeout_s=0.2).wait()
        self.assertNotEqual(str(raised.exception), "")

    def test_a_node_dies_under_eight_threads(self):
        pages = contents(0, 64)
        self.client.put(keys(0, 64), pages, timeout_s=30).wait()
        rounds, dead = [0] * 8, threading.Event()

        def work(thread):
            after = 0
            while after < 3:
                after += dead.is_set()
                into = numpy.zeros((8, PAGE_BYTES), numpy.uint8)
                begun = time.monotonic()
                verdicts = self.client.fetch(keys(8 * thread, 8), into, timeout_s=0.5).wait()
                self.assertLess(time.monotonic() - begun, 10)
                for row, verdict in zip(range(8), verdicts["verdict"]):
                    if verdict == READY:
                        self.assertEqual(into[row].tobytes(), content(8 * thread + row))
                rounds[thread] += 1
            return self.client.put(key(thread), content(thread), timeout_s=0.2).wait()["code"][0]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            running = [pool.submit(work, thread) for thread in range(8)]
            self.assertTrue(wait_until(lambda: all(rounds)))
            self.node.kill()
            self.node.wait()
            dead.set()
            for each in running:
                self.assertIn(each.result(timeout=100), (farpage.Code.TIMEOUT, farpage.Code.UNAVAILABLE))


class OtherNodesTest(Case):
    def test_a_page_longer_than_the_nodes_take(self):
        node = self.start_node("--page-bytes", "4KiB")
        with farpage.open(str(node.socket)) as client:
            self.assertEqual(client.page_bytes, 4096)
            self.assertEqual(client.put(key(1), bytes(4097), timeout_s=5).wait()["code"][0], farpage.Code.INVALID)
            self.assertEqual(client.put(key(1), bytes(4096), timeout_s=30).wait()["code"][0], farpage.Code.OK)
            self.assertEqual(client.fetch(key(1), bytearray(8192), timeout_s=5).wait()["reason"][0], farpage.Reason.MISS)

    def test_pages_of_other_facts_are_not_found(self):
        node = self.start_node()
        names = [farpage.KeySpace(model="m", dtype=dtype).keys(["1", "2"]) for dtype in ("fp8", "bf16")]
        with farpage.open(str(node.socket)) as client:
            client.put(names[0], contents(0, 2), timeout_s=30).wait()
            self.assertEqual([client.leading(each) for each in names], [2, 0])

    def test_a_node_of_another_version(self):
        """It speaks no control protocol that this client knows."""
        import socket

        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / "other.sock"))
            listener.listen()

            def answer():
                connection = listener.accept()[0]
                connection.sendall(b"\x7f" * 64)
                connection.close()

            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            with self.assertRaises(farpage.FarpageError):
                farpage.open(str(self.folder / "other.sock"), connect_ms=200)
            thread.join()


if __name__ == "__main__":
    unittest.main()
