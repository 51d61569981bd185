"""Pages come back whole from and to every kind of buffer; the rest is a verdict or a documented
exception."""

import array
import ctypes
import mmap
import unittest

import numpy
from client_case import PAGE_BYTES, READY, RECOMPUTE, ClientCase, content, contents, farpage, key, keys

try:
    import torch
except ImportError:
    torch = None


def mapped():
    return mmap.mmap(-1, PAGE_BYTES)


WRITABLE = {
    "bytearray": lambda: bytearray(PAGE_BYTES),
    "memoryview": lambda: memoryview(bytearray(PAGE_BYTES)),
    "view_of_a_part": lambda: memoryview(bytearray(3 * PAGE_BYTES))[PAGE_BYTES:2 * PAGE_BYTES],
    "array": lambda: array.array("d", bytes(PAGE_BYTES)),
    "mmap": mapped,
    "ctypes": lambda: (ctypes.c_int * (PAGE_BYTES // 4))(),
    "ctypes_structure": lambda: (type("Odd", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_char), ("b", ctypes.c_double)]}) * (PAGE_BYTES // 16))(),
    "numpy": lambda: numpy.zeros(PAGE_BYTES, numpy.uint8),
    "numpy_float16": lambda: numpy.zeros((2, PAGE_BYTES // 8, 2), numpy.float16),
    "numpy_structured": lambda: numpy.zeros(PAGE_BYTES // 8, [("a", "u4"), ("b", "f4")]),
}


class BuffersTest(ClientCase):
    def test_every_kind_of_writable_buffer(self):
        for number, (name, make) in enumerate(WRITABLE.items()):
            with self.subTest(name):
                source, destination = make(), make()
                source_bytes = source.view(numpy.uint8).reshape(-1) if isinstance(source, numpy.ndarray) else memoryview(source).cast("B") if name != "ctypes_structure" else numpy.frombuffer(source, numpy.uint8)
                source_bytes[:] = numpy.frombuffer(content(number), numpy.uint8)
                self.put(key(number), source)
                self.fetch(key(number), destination)
                self.assertEqual(bytes(destination), content(number))

    def test_read_only_buffers_are_put_and_not_fetched_into(self):
        frozen = contents(100, 1)
        frozen.flags.writeable = False
        for number, source in ((100, content(100)), (101, memoryview(content(101))), (100, frozen)):
            self.put(key(number), source)
            with self.assertRaisesRegex(farpage.InvalidError, "read-only"):
                self.client.fetch(key(number), source)
            into = bytearray(PAGE_BYTES)
            self.fetch(key(number), into)
            self.assertEqual(bytes(into), content(number))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_tensors(self):
        for number, dtype in enumerate((torch.uint8, torch.float16, torch.bfloat16, torch.float32)):
            source = torch.frombuffer(bytearray(content(110 + number)), dtype=dtype)
            into = torch.zeros_like(source)
            self.put(key(110 + number), source)
            ticket = self.client.fetch(key(110 + number), into, timeout_s=30)
            ticket.wait()
            self.assertEqual(bytes(into.view(torch.uint8).numpy()), content(110 + number))
        with self.assertRaises(farpage.InvalidError):
            self.client.fetch(key(110), torch.zeros(64, 64).t())

    def test_batches_in_every_form(self):
        names, pages = keys(200, 4), contents(200, 4)
        self.put(names, pages)
        as_array = numpy.frombuffer(b"".join(names), numpy.uint8).reshape(4, 16)
        wide = numpy.zeros((4, 3, PAGE_BYTES // 4), numpy.float32)
        flat, parts = bytearray(4 * PAGE_BYTES), [bytearray(PAGE_BYTES) for _ in range(4)]
        for names_given, memory, seen in ((names, numpy.zeros_like(pages), None), (tuple(names), flat, None), (as_array, parts, b"".join),
                                          (as_array[::-1][::-1], wide[:, 1], None), (names, memoryview(flat).cast("B", (4, PAGE_BYTES)), bytes)):
            self.fetch(names_given, memory)
            self.assertEqual(seen(memory) if seen else memory.tobytes() if hasattr(memory, "tobytes") else bytes(memory), pages.tobytes())
        self.assertFalse(wide[:, 0].any() or wide[:, 2].any())

    def test_pages_of_a_region(self):
        self.put(keys(300, 3), contents(300, 3))
        pool = numpy.zeros((8, PAGE_BYTES), numpy.uint8)
        with self.client.register(pool) as region:
            places = region.pages([5 * PAGE_BYTES, 0, 2 * PAGE_BYTES], PAGE_BYTES)
            self.assertEqual(len(places), 3)
            self.fetch(keys(300, 3), places)
            for number, slot in enumerate((5, 0, 2)):
                self.assertEqual(pool[slot].tobytes(), content(300 + number))
            self.assertFalse(pool[[1, 3, 4, 6, 7]].any())
            for offsets, page_bytes in (([-1], 8), ([8 * PAGE_BYTES - 7], 8), ([0], 0), ([0], 9 * PAGE_BYTES), ([0.5], 8), ([[0]], 8)):
                with self.assertRaises(farpage.InvalidError):
                    region.pages(offsets, page_bytes)
            with self.assertRaisesRegex(farpage.InvalidError, "pages"):
                self.client.fetch(key(300), region)
            with self.assertRaises(farpage.RegisteredError):
                self.client.register(pool[3])
            self.fetch(key(300), pool[7])  # within the region
        self.client.register(pool).close()
        with self.assertRaises(farpage.InvalidError):
            self.client.fetch(keys(300, 3), places)  # their region is closed

    def test_memory_of_one_operation_after_the_other(self):
        """What an operation has filled in for the library is not the next one's."""
        memory, others = contents(420, 4), contents(424, 4)
        self.put(keys(420, 4), memory)
        versions = self.put(keys(424, 4), others)["version"]
        into = numpy.zeros_like(memory)
        for _ in range(3):
            self.fetch(keys(420, 4), into)
            self.assertTrue((into == memory).all())
            late = self.client.fetch(keys(424, 4), into, min_version=versions + 100, timeout_s=5).wait()
            self.assertEqual(set(late["reason"]), {farpage.Reason.STALE})
            self.fetch(keys(424, 4), into)
            self.assertTrue((into == others).all())
            into.flags.writeable = False
            self.put(keys(428, 4), into)
            with self.assertRaisesRegex(farpage.InvalidError, "read-only"):
                self.client.fetch(keys(424, 4), into)
            into.flags.writeable = True

    def test_pages_of_a_region_by_place(self):
        memory = numpy.zeros((4, PAGE_BYTES), numpy.uint8)
        with self.client.register(memory) as region:
            places = region.pages([PAGE_BYTES * place for place in (3, 2, 1, 0)], PAGE_BYTES)
            self.client.put(keys(600, 4), contents(600, 4)).wait()
            for chosen in ([1, 3], numpy.array([1, 3], numpy.int32), (1, 3), numpy.array([1, 3], numpy.uint64)):
                memory[:] = 0
                self.assertTrue((self.client.fetch(keys(600, 2), places.at(chosen)).wait()["verdict"] == READY).all())
                self.assertEqual(memory[[2, 0]].tobytes(), contents(600, 2).tobytes())
                self.assertFalse(memory[[1, 3]].any())
            self.assertEqual((len(places.at(2)), len(places.at([]))), (1, 0))
            for wrong in (4, [0, 4], -1, [0, -1], [0.0], ["0"], [None], numpy.int64(1 << 62), numpy.uint64(1 << 63)):
                with self.assertRaisesRegex(farpage.InvalidError, "there are 4 pages: places are whole numbers from 0 to 3"):
                    places.at(wrong)
        with self.assertRaisesRegex(farpage.InvalidError, "the region of these pages is closed"):
            self.client.fetch(keys(600, 1), places.at([0]))

    def test_pages_of_different_lengths(self):
        lengths = (1, 63, 4096, PAGE_BYTES)
        self.put(keys(400, 4), [content(400 + n, length) for n, length in enumerate(lengths)])
        into = [bytearray(length) for length in lengths]
        self.fetch(keys(400, 4), into)
        self.assertEqual([bytes(each) for each in into], [content(400 + n, length) for n, length in enumerate(lengths)])

    def test_wrong_memory_is_refused_with_a_sentence(self):
        column = numpy.zeros((64, 64), numpy.uint8)
        for names, memory, sentence in (
                (key(1), column.T, "not contiguous"), (key(1), column[:, 3], "not contiguous"), (key(1), memoryview(bytearray(64))[::2], "not contiguous"),
                (key(1), bytearray(), "empty"), (key(1), numpy.zeros((0, 4)), "empty"), (key(1), "text", "no buffer"), (key(1), None, "no buffer"),
                (key(1), 7, "no buffer"), (key(1), numpy.array([object()]), "objects"), (keys(1, 3), column, "3 keys"), (keys(1, 3), bytearray(64), "cut into 3"),
                (keys(1, 2), [bytearray(8)], "2 keys"), (keys(1, 64), column[:, ::2], "not contiguous"), (keys(1, 64), column[::-1], "falling"),
                (keys(1, 2), numpy.lib.stride_tricks.as_strided(numpy.zeros(64, numpy.uint8), (2, 32), (8, 1)), "overlap"), ([], bytearray(8), "0 pages")):
            for call in (self.client.fetch, self.client.put):
                with self.assertRaisesRegex(farpage.InvalidError, sentence):
                    call(names, memory)

    def test_no_pages_are_done_at_once_in_every_form(self):
        array = numpy.zeros((0, 16), numpy.uint8)
        frozen = numpy.zeros((0, PAGE_BYTES), numpy.uint8)
        frozen.flags.writeable = False
        with self.client.register(bytearray(PAGE_BYTES)) as region:
            for names in ([], (), array):
                for memory in ([], (), numpy.zeros((0, PAGE_BYTES), numpy.uint8), numpy.zeros(0), frozen, bytearray(), b"", memoryview(b""), region.pages([], 8)):
                    for call in (self.client.fetch, self.client.put):
                        self.assertEqual(len(call(names, memory, timeout_s=30).wait()), 0)
                    with self.assertRaisesRegex(farpage.InvalidError, "1 keys|empty"):
                        self.client.put([key(1)], memory)
                self.assertEqual(len(self.client.exists(names).wait()), 0)
                self.assertEqual((self.client.remove(names).wait(), self.client.leading(names)), (0, 0))
        with self.assertRaisesRegex(farpage.InvalidError, "0 keys"):
            self.client.fetch(array, numpy.zeros((4, 8), numpy.uint8))

    def test_pages_that_share_memory_are_put_and_not_fetched(self):
        memory = numpy.frombuffer(bytearray(content(440, 4 * 4096)), numpy.uint8)
        rows = memory.reshape(4, 4096)
        names = keys(440, 3)
        with self.client.register(memory) as region:
            for places, one, other in (([rows[1], rows[0], rows[1]], 0, 2), ([rows[0], rows[3], memory[4097:8193]], None, None),
                                       ([memory[:4096], rows[2], memory[4095:8191]], 0, 2), ([memory, rows[0], rows[3]], 0, 1), ([rows[3], rows[2], memory[12287:12288]], 1, 2),
                                       (region.pages([0, 8192, 4095], 4096), 0, 2), (region.pages([8192, 4096, 0], 4096), None, None), (region.pages([7, 9000, 7], 64), 0, 2)):
                self.put(names, places)
                for _ in range(2):
                    if one is None:
                        self.fetch(names, places)
                        continue
                    with self.assertRaisesRegex(farpage.InvalidError, f"pages {one} and {other} of the fetch would land in the same bytes"):
                        self.client.fetch(names, places)

    def test_wrong_pages_of_a_region_are_refused_with_a_sentence(self):
        with self.client.register(bytearray(64)) as region:
            for offsets, page_bytes in (([0], 1.5), ([0], "8"), ([0], None), ([[0], [0, 1]], 8), (["a"], 8), ([1 << 64], 8), (None, 8), ([True], 8)):
                with self.assertRaisesRegex(farpage.InvalidError, "whole numbers"):
                    region.pages(offsets, page_bytes)
            self.assertEqual(len(region.pages(8, numpy.int8(8))), 1)

    def test_wrong_keys_are_refused_with_a_sentence(self):
        for names in (b"", "a text of 16 by.", [key(1), b"short"], [key(1), "x"], bytearray(16), 7, None, numpy.zeros(16), numpy.zeros((2, 15), numpy.uint8), {}):
            for call in (self.client.exists, self.client.remove, lambda each: self.client.fetch(each, bytearray(16))):
                with self.assertRaisesRegex(farpage.InvalidError, "16 bytes"):
                    call(names)

    def test_timeouts_are_checked(self):
        for timeout_s in (-1, float("nan")):
            with self.assertRaisesRegex(farpage.InvalidError, "timeout"):
                self.client.exists(key(1), timeout_s=timeout_s)
        for timeout_s in ("1", b"1", [1], 1j, numpy.ones(2)):
            for call in (lambda given: self.client.exists(key(1), timeout_s=given), lambda given: self.client.flush(timeout_s=given)):
                with self.assertRaisesRegex(farpage.InvalidError, "a timeout is .*: give a number of seconds"):
                    call(timeout_s)
        self.client.exists(key(1), timeout_s=float("inf")).wait(1e30)
        self.client.exists(key(1), timeout_s=10 ** 400).wait(10 ** 400)
        for timeout_s in (10 ** 400, 1e300, float("inf"), None, 30, numpy.float32(30)):
            self.client.flush(timeout_s=timeout_s)


class OperationsTest(ClientCase):
    def test_a_page_that_is_not_there_is_a_miss(self):
        self.put(key(1), content(1))
        verdicts = self.client.fetch(keys(0, 2), numpy.zeros((2, PAGE_BYTES), numpy.uint8), timeout_s=5).wait()
        self.assertEqual(list(verdicts["verdict"]), [RECOMPUTE, farpage.Verdict.READY])
        self.assertEqual(verdicts["reason"][0], farpage.Reason.MISS)
        self.assertGreater(verdicts["version"][1], 0)
        self.assertGreater(verdicts["took_ns"][1], 0)
        self.assertEqual(verdicts["held"].dtype, bool)

    def test_another_length_is_a_miss(self):
        self.put(key(5), content(5, 4096))
        for length in (4095, 4097):
            self.assertEqual(self.client.fetch(key(5), bytearray(length), timeout_s=5).wait()["reason"][0], farpage.Reason.MISS)

    def test_older_versions_are_refused(self):
        version = int(self.put(key(10), content(10))["version"][0])
        self.fetch(key(10), bytearray(PAGE_BYTES))
        into = bytearray(PAGE_BYTES)
        self.assertEqual(self.client.fetch(key(10), into, min_version=version, timeout_s=5).wait()["verdict"][0], farpage.Verdict.READY)
        verdicts = self.client.fetch(key(10), into, min_version=[version + 1], timeout_s=5).wait()
        self.assertEqual(verdicts["reason"][0], farpage.Reason.STALE)

    def test_versions_are_checked(self):
        names, into = keys(10, 4), numpy.zeros((4, PAGE_BYTES), numpy.uint8)
        versions = self.put(names, contents(10, 4))["version"]
        for given in (None, 0, 1, versions, list(versions), versions[0], [0, 0, 0, int(versions[3])], numpy.zeros(4, numpy.int8), versions.astype(">u8")):
            self.assertEqual(set(self.client.fetch(names, into, min_version=given, timeout_s=30).wait()["verdict"]), {farpage.Verdict.READY})
        for given in ((1 << 64) - 1, numpy.full(4, (1 << 64) - 1, numpy.uint64)):
            self.assertEqual(set(self.client.fetch(names, into, min_version=given, timeout_s=5).wait()["reason"]), {farpage.Reason.STALE})
        for given in (-1, [-1] * 4, [0, 0, 0, -1], 1 << 64, [1 << 64] * 4, 1.7, 1.0, float("nan"), "x", b"1", True, 1j, object(), [[0], [0, 1]], [1, 2], [1], [], [[1]] * 4,
                      numpy.array([-1] * 4)):
            with self.subTest(given=given), self.assertRaisesRegex(farpage.InvalidError, "min_version"):
                self.client.fetch(names, into, min_version=given)
        self.settle()
        self.assertFalse(self.client._regions._sorted[0])

    def test_asked_counted_and_removed(self):
        self.put(keys(20, 3), contents(20, 3))
        names = [*keys(20, 2), key(99), key(22)]
        self.assertEqual(list(self.client.exists(names).wait()["verdict"]), [1, 1, 2, 1])
        self.assertEqual(self.client.leading(names), 2)
        self.assertEqual(self.client.leading(keys(20, 3)), 3)
        self.assertEqual(self.client.leading([]), 0)
        self.assertEqual(self.client.remove(names, timeout_s=30).wait(), 3)
        self.assertEqual(self.client.remove(names, timeout_s=30).wait(), 0)
        self.assertEqual(self.client.leading(names), 0)

    def test_too_long_a_page_is_a_result(self):
        self.assertEqual(self.client.page_bytes, PAGE_BYTES)
        self.assertEqual(self.client.put(key(30), bytes(PAGE_BYTES + 1)).wait()["code"][0], farpage.Code.INVALID)

    def test_no_time_is_a_verdict(self):
        ticket = self.client.fetch(key(40), bytearray(PAGE_BYTES), timeout_s=0)
        self.assertEqual(ticket.wait()["reason"][0], farpage.Reason.STALLED)
        ticket.wait_released()
        self.assertTrue(ticket.done and ticket.released)
        self.assertEqual(ticket.why(), "")

    def test_too_many_under_way_are_refused(self):
        with farpage.open(embedded=True, queue_depth=2, lanes=1) as client:
            self.put(key(1), content(1), client)
            tickets = [client.exists(key(1)) for _ in range(2)]
            with self.assertRaises(farpage.ExhaustedError):
                client.exists(key(1))
            self.assertEqual([ticket.wait()["verdict"][0] for ticket in tickets], [1, 1])
            del tickets
            self.assertEqual(client.exists(key(1)).wait()["verdict"][0], 1)


class KeysTest(unittest.TestCase):
    def test_the_vectors_of_the_format(self):
        import key_space_test

        for facts, engine_key, namespace, page in key_space_test.vectors():
            space = farpage.KeySpace(dict(facts))
            self.assertEqual((space.namespace.hex(), space.key(engine_key).hex()), (namespace, page))

    def test_names_of_any_length_and_bytes(self):
        space = farpage.KeySpace(model="m")
        names = [b"", b"\0", b"\xff" * 100_000, "ü", bytes(range(256))]
        made = space.keys(names)
        self.assertEqual(made.shape, (5, 16))
        self.assertEqual([row.tobytes() for row in made], [space.key(name) for name in names])
        self.assertEqual(len({row.tobytes() for row in made}), 5)
        self.assertEqual(space.key("ü"), space.key("ü".encode()))
        self.assertEqual(farpage.page_key(space.namespace, "x"), space.key("x"))

    def test_names_of_one_length(self):
        space = farpage.KeySpace(model="m")
        for names in ([], [b"x"], [b"", b""], [b"a\0", b"a\1", "ü"], [content(number, 36) for number in range(64)]):
            self.assertEqual([row.tobytes() for row in space.keys(names)], [space.key(name) for name in names])

    def test_wrong_facts_are_refused(self):
        for facts in ({}, {"": "x"}, {"a" * 4097: ""}, {"a": "b" * 4097}, {"a": "1", b"a": "2"}, {"a": 7}, {7: "a"}):
            with self.assertRaises(farpage.InvalidError):
                farpage.KeySpace(facts)
        with self.assertRaises(farpage.InvalidError):
            farpage.page_key("space", 7)

    def test_text_that_no_bytes_stand_for_is_refused(self):
        space = farpage.KeySpace(model="m")
        for call in (lambda: farpage.page_key("\ud800", "x"), lambda: farpage.page_key("x", "\ud800"), lambda: farpage.KeySpace(model="\ud800"),
                     lambda: farpage.KeySpace({"\ud800": "m"}), lambda: space.key("\ud800"), lambda: space.keys(["a", "\ud800"])):
            with self.assertRaisesRegex(farpage.InvalidError, "no text of Unicode"):
                call()


if __name__ == "__main__":
    unittest.main()
