"""What the adapters for engines share, without an engine: namespaces, a client that comes later,
and all of it over a node."""

import logging
import signal
import unittest

import numpy
from client_case import PAGE_BYTES, ClientCase, content, contents, farpage, key, keys, run_script
from farpage.engines.connection import Connection
from farpage.engines.lookups import Lookups
from farpage.engines.transfers import Job, Transfers
from program import Case, stop, stop_node, wait_until

FOREVER_S = 1000
SPACE = farpage.KeySpace(model="m")


class ConnectionTest(Case):
    def setUp(self):
        super().setUp()
        logging.getLogger("farpage").addHandler(logging.NullHandler())
        self.socket = self.folder / "node.sock"
        self.prepared = []

    def connection(self, prepare=None):
        made = Connection({"node": str(self.socket), "connect_ms": 200}, prepare or self.prepared.append, SPACE)
        self.addCleanup(made.close)
        return made

    def test_a_question_ends_its_sentence(self):
        stop_node(self, self.start_node())
        connection = self.connection()
        self.assertTrue(wait_until(lambda: "is it stopped? docs/engines.md says" in connection.why_not), connection.why_not)

    def test_a_node_that_comes_later_is_used(self):
        connection = self.connection()
        self.assertTrue(wait_until(lambda: "start one" in connection.why_not), connection.why_not)
        self.assertTrue(connection.why_not.endswith(". Farpage tries again every 0.1 to 5 s; until a node answers, every page is a miss"), connection.why_not)
        self.assertIsNone(connection.client)
        node = self.start_node()
        self.assertTrue(wait_until(lambda: connection.client is not None))
        self.assertEqual(self.prepared, [connection.client])
        memory = numpy.ones((1, 4096), numpy.uint8)
        self.assertFalse(connection.client.put(SPACE.keys(["page"]), memory, timeout_s=20).wait()["code"].any())
        self.assertEqual([each["facts"] for each in self.status(node)["namespaces"]], [{"model": "m"}])
        connection.close()
        self.assertIsNone(connection.client)

    def test_a_client_that_cannot_be_prepared_is_closed(self):
        opened = []
        mended = []

        def prepare(client):
            opened.append(client)
            if not mended:
                raise (farpage.UnavailableError, farpage.ExhaustedError)[len(opened) % 2]("not yet")

        self.start_node()
        connection = self.connection(prepare)
        self.assertTrue(wait_until(lambda: len(opened) >= 2))
        mended.append(True)
        self.assertTrue(wait_until(lambda: connection.client is not None))
        self.assertIs(connection.client, opened[-1])
        for client in opened[:-1]:
            with self.assertRaisesRegex(farpage.InvalidError, "closed"):
                client.exists(key(1))

    def test_what_no_node_mends_ends_it(self):
        def refuse(_):
            raise farpage.InvalidError("pages are too small")

        self.start_node()
        connection = self.connection(refuse)
        connection._thread.join()
        self.assertIn("too small", connection.why_not)
        self.assertIsNone(connection.client)

    def test_facts_are_the_engines(self):
        connection = Connection({"node": str(self.socket), "facts": "model=a"}, self.prepared.append, SPACE)
        connection._thread.join()
        self.assertIn('leave out "facts"', connection.why_not)

    def test_an_interpreter_that_exits_closes_the_client(self):
        """Also in the middle of an operation, which farpage's own exit would leave to itself."""
        node = self.start_node(listen="tcp://127.0.0.1:0")
        script = f"""
import atexit, farpage.client, os, signal
from farpage.engines.connection import Connection
from program import stop, wait_until
atexit.register(lambda: print(ticket.released))
farpage.client.EXIT_S = 0
made = Connection({{"node": {node.address!r}}}, lambda client: None, farpage.KeySpace(model="m"))
assert wait_until(lambda: made.client is not None)
stop({node.pid})
ticket = made.client.put(bytes(16), bytes(64), timeout_s=0.5)
"""
        result = run_script(script)
        self.assertEqual((result.returncode, result.stdout), (0, "True\n"), result.stderr)

    def test_an_interpreter_that_exits_ends_what_opens_the_client(self):
        """Also one that no node answers, and one that a node answers meanwhile."""
        node = self.start_node(listen="tcp://127.0.0.1:0")
        stop(node.pid)
        self.addCleanup(node.send_signal, signal.SIGCONT)
        for wakes in (False, True):
            script = f"""
import atexit, farpage, os, signal
from farpage.engines.connection import Connection
atexit.register(lambda: print(made._thread.is_alive(), made.client))
made = Connection({{"node": {node.address!r}, "connect_ms": {60_000 if wakes else 300}}}, lambda client: None, farpage.KeySpace(model="m"))
if {wakes}:
    os.kill({node.pid}, signal.SIGCONT)
"""
            result = run_script(script)
            self.assertEqual((result.returncode, result.stdout), (0, "False None\n"), result.stderr)

    def test_it_ends_while_it_tries(self):
        self.connection().close()


class OverANodeTest(ClientCase):
    """The parts together, as an adapter has them."""

    def test_stored_pages_are_found_and_loaded(self):
        memory = contents(0, 4)
        region = self.client.register(memory)
        lookups = Lookups(list, self.client.exists, FOREVER_S)
        transfers = Transfers(load_bytes=PAGE_BYTES, store_bytes=4 * PAGE_BYTES, lost=lookups.lose)
        pages = region.pages(numpy.arange(4) * PAGE_BYTES, PAGE_BYTES)
        transfers.submit(Job(1, keys(0, 4), False, 4 * PAGE_BYTES, FOREVER_S, lambda s: self.client.put(keys(0, 4), pages, timeout_s=s)))
        transfers.drain()
        self.assertTrue(transfers.take_ended()[0].is_whole)
        for name in keys(0, 5):
            lookups.find(name, "request")
        lookups.ask()
        self.assertTrue(wait_until(lambda: lookups.take() or not lookups.is_waiting))
        self.assertEqual([lookups.find(name, "request") for name in keys(0, 5)], [True] * 4 + [False])
        memory[:] = 0
        transfers.submit(Job(2, keys(0, 4), True, 4 * PAGE_BYTES, FOREVER_S, lambda s: self.client.fetch(keys(0, 4), pages, timeout_s=s)))
        transfers.drain()
        self.assertTrue(transfers.take_ended()[0].is_whole)
        self.assertEqual(memory.tobytes(), contents(0, 4).tobytes())
        region.close()


if __name__ == "__main__":
    unittest.main()
