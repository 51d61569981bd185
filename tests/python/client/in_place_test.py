"""A pool that an engine shares between its processes, as vLLM's is, is read in place by a node of
the same host."""

import mmap
import os
import pathlib
import unittest

import numpy
from client_case import PAGE_BYTES, content, contents, farpage, keys
from program import Case, fetch, values_of, wait_until

PAGES = 16


class SharedPool:
    """The file of vLLM's SharedOffloadRegion: made exclusively, mapped, and unlinked."""

    def __init__(self, name):
        path = pathlib.Path(f"/dev/shm/farpage_test_{os.getpid()}_{name}.mmap")
        self.file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        os.ftruncate(self.file, PAGES * PAGE_BYTES)
        self.mapping = mmap.mmap(self.file, PAGES * PAGE_BYTES)
        path.unlink()
        self.pages = numpy.frombuffer(self.mapping, numpy.uint8).reshape(PAGES, PAGE_BYTES)


class InPlaceTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.start_program("node", "--listen", self.folder / "node.sock", "--state", self.folder / "node.state", "--pool-bytes", "64MiB",
                                       "--page-bytes", PAGE_BYTES, "--set", "node.metrics_listen=127.0.0.1:0")
        self.url = self.metrics_url(self.node)
        self.line_saying(self.node, "serving")
        self.client = farpage.open(str(self.folder / "node.sock"))
        self.addCleanup(self.client.close)

    def value(self, name):
        return values_of(fetch(self.url))[f"farpage_node_{name}"]

    def put(self, names, memory):
        results = self.client.put(names, memory, timeout_s=30).wait()
        self.assertEqual(set(results["code"]), {farpage.Code.OK})

    def test_pages_of_a_shared_pool_are_stored_without_a_copy_by_the_client(self):
        pool = SharedPool("pool")
        region = self.client.register(pool.pages)
        pool.pages[:] = contents(0, PAGES)

        def in_place():
            self.put(keys(0, 1), pool.pages[:1])
            return self.value("puts_in_place_total") > 0

        self.assertTrue(wait_until(in_place))
        self.assertEqual(self.value("sources"), 1)
        before = self.value("puts_in_place_total")
        pool.pages[:] = contents(100, PAGES)
        self.put(keys(100, PAGES), region.pages([place * PAGE_BYTES for place in range(PAGES)], PAGE_BYTES))
        self.assertEqual(self.value("puts_in_place_total") - before, PAGES)
        pool.pages[:] = 0
        into = numpy.zeros((PAGES, PAGE_BYTES), numpy.uint8)
        verdicts = self.client.fetch(keys(100, PAGES), into, timeout_s=30).wait()
        self.assertEqual(set(verdicts["verdict"]), {farpage.Verdict.READY})
        for place in range(PAGES):
            self.assertEqual(into[place].tobytes(), content(100 + place))
        region.close()
        self.assertTrue(wait_until(lambda: self.value("sources") == 0))

    def test_private_memory_is_not_read_in_place(self):
        private = contents(0, PAGES)
        region = self.client.register(private)
        for _ in range(4):
            self.put(keys(0, PAGES), private)
        self.assertEqual((self.value("sources"), self.value("puts_in_place_total")), (0, 0))
        self.assertEqual(self.value("puts_total"), 4 * PAGES)
        region.close()


if __name__ == "__main__":
    unittest.main()
