"""The writer and the reader of access traces in Python.

tests/cli/lab/replay_policies_test.py shows that the program reads them.
"""

import pathlib
import random
import struct
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from farpage.access_trace import Access, Reader, TraceError, Writer  # noqa: E402


def framed(number, data):
    return struct.pack("<III", number, len(data), zlib.crc32(data)) + data


class AccessTraceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "a.trace"

    def test_bytes_are_those_of_the_format(self):
        with Writer(self.path, "n", synthetic=True, layers=2, heads=100, columns=["category", "mass"]) as trace:
            trace.add(300, "a", head=143, category=128, mass=0.5)
            trace.add(301, "b", head=3, category=7, mass=0)
            trace.add(301, "a", head=143, category=7, mass=1)
        written = self.path.read_bytes()
        size, crc = struct.unpack_from("<II", written, 12)
        self.assertEqual(written[:12], b"FPACCESS\1\0\0\0")
        self.assertEqual(zlib.crc32(written[20:20 + size]), crc)
        columns = (b"\xac\x02\1\0" b"\0\2\1" b"\x8f\1\3" b"\x80\1\7\7" + struct.pack("<fff", 0.5, 0, 1))
        self.assertEqual(written[20 + size:], framed(3, columns) + framed(0, struct.pack("<Q", 3)))

    def test_what_is_written_is_read(self):
        draw = random.Random(3)
        accesses, step = [], 0
        heads = {page: draw.randrange(6) for page in range(2000)}
        for _ in range(140_000):  # more than two blocks
            step += draw.choice((0, 0, 0, 1, 1000))
            page = draw.randrange(2000)
            accesses.append((step, page, heads[page], draw.randrange(1 << 20), draw.randrange(1 << 32)))
        with Writer(self.path, "n", synthetic=False, layers=3, heads=2, columns=["score", "category"]) as trace:
            for step, page, head, score, category in accesses:
                trace.add(step, page, head=head, score=score, category=category)
        reader, numbers = Reader(self.path), {}
        self.assertEqual((reader.name, reader.synthetic, reader.columns), ("n", False, ["score", "category"]))
        expected = [Access(step, numbers.setdefault(page, len(numbers)), head, {"score": score, "category": category})
                    for step, page, head, score, category in accesses]
        self.assertEqual(list(reader), expected)

    def test_what_is_no_access_is_not_written(self):
        trace = Writer(self.path, "n", synthetic=True, heads=2, columns=["mass"])
        trace.add(5, 1, mass=0.1)
        for step, values in ((4, {"mass": 0}), (5, {}), (5, {"mass": float("nan")}), (5, {"mass": -0.1}), (5, {"mass": 1e39}), (5, {"mass": 1.1}), (5, {"mass": 0, "head": 2}),
                             (5, {"mass": 0, "score": 1})):
            with self.assertRaises(TraceError):
                trace.add(step, 2, **values)
        trace.close()
        self.assertEqual([access.page for access in Reader(self.path)], [0])
        for values in ({"columns": ["weight"]}, {"columns": ["mass", "mass"]}, {"heads": 0}, {"layers": 1 << 25}):
            with self.assertRaises(TraceError):
                Writer(self.path, "n", synthetic=True, **values)

    def test_what_is_known_of_a_step_s_token_is_written_and_read(self):
        columns = ["entropy", "margin", "mark"]
        with Writer(self.path, "n", synthetic=True, columns=columns) as trace:
            trace.add(0, "a", entropy=0.5, margin=7, mark=4)
            trace.add(1, "a", entropy=0, margin=0, mark=0)
            for wrong in ({"entropy": -0.1}, {"margin": -1}, {"margin": float("inf")}, {"mark": 5}, {"mark": -1}):
                with self.assertRaises(TraceError):
                    trace.add(2, "a", **{"entropy": 1, "margin": 1, "mark": 1, **wrong})
        self.assertEqual([access.values for access in Reader(self.path)],
                         [{"entropy": 0.5, "margin": 7, "mark": 4}, {"entropy": 0, "margin": 0, "mark": 0}])

    def test_damage_is_found(self):
        with Writer(self.path, "n", synthetic=True) as trace:
            for page in range(9):
                trace.add(page, page)
        whole = self.path.read_bytes()
        for length in range(len(whole)):
            self.path.write_bytes(whole[:length])
            with self.assertRaises(TraceError):
                list(Reader(self.path))
        for at in range(20, len(whole)):
            self.path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:])
            with self.assertRaises(TraceError):
                list(Reader(self.path))

    def test_a_refused_access_leaves_no_trace(self):
        with Writer(self.path, "n", synthetic=True, columns=["score", "mass"]) as trace:
            trace.add(5, "a", score=1, mass=0.5)
            with self.assertRaises(TraceError):
                trace.add(9, "b", score=2, mass=7)
            trace.add(6, "c", score=3, mass=0.25)
        self.assertEqual(list(Reader(self.path)), [Access(5, 0, 0, {"score": 1, "mass": 0.5}), Access(6, 1, 0, {"score": 3, "mass": 0.25})])

    def test_heads_that_are_none_are_refused(self):
        for head in (b"{", b"[]", b"{}", b'{"synthetic": true}', b'{"synthetic": true, "columns": 5}', b'{"synthetic": true, "columns": ["magic"]}',
                     b'{"synthetic": true, "columns": [], "layers": "x", "heads": null}', b"\xff"):
            self.path.write_bytes(b"FPACCESS" + framed(1, head))
            with self.assertRaises(TraceError):
                Reader(self.path)
        self.path.write_bytes(b"FPACCESS" + framed(1, b'{"synthetic": true, "columns": []}') + framed(0, b"123"))
        with self.assertRaises(TraceError):
            list(Reader(self.path))

    def test_a_writer_that_fails_leaves_no_end(self):
        with self.assertRaises(ZeroDivisionError), Writer(self.path, "n", synthetic=True) as trace:
            trace.add(0, 0)
            raise ZeroDivisionError
        with self.assertRaisesRegex(TraceError, "cut off"):
            list(Reader(self.path))


if __name__ == "__main__":
    unittest.main(verbosity=2)
