"""Access traces: Writer and Reader of the format in docs/formats/access-trace.md.

    with Writer(path, "a name", synthetic=False, layers=32, heads=8, columns=["mass"]) as trace:
        trace.add(step, page, head=3, mass=0.02)
    for access in Reader(path):
        access.values["mass"]

`page` is any hashable name, and steps never go back. A reader gives Access(step, page, head,
values), with pages numbered from 0. In memory either keeps a block, and for each page its number
(Writer) or its head (Reader).
"""

import collections
import json
import math
import struct
import zlib

MAGIC = b"FPACCESS"
VERSION = 1
COLUMNS = ("mass", "score", "similarity", "category", "entropy", "margin", "mark")
VARINTS = ("category", "mark")  # the other columns are float32
MARKS = 5  # nothing; a step of reasoning begins; and it explores, verifies, concludes
MOST_HEADS = 1 << 24
BLOCK_ACCESSES = 1 << 16
BLOCK_BYTES = 4 << 20
MOST_FLOAT = 3.4028234e38
MOST_MASS = 1.001  # who adds up shares may round
HEAD = struct.Struct("<III")  # a number, the bytes that follow, their CRC-32

Access = collections.namedtuple("Access", "step page head values")


class TraceError(Exception):
    """The trace, or what is to become part of it, is not as the format has it."""


def framed(number, payload):
    return HEAD.pack(number, len(payload), zlib.crc32(payload)) + payload


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return value << 1 if value >= 0 else (-value << 1) - 1


class Writer:
    """Writes one trace, on one thread. Until close() the file has no end, and every reader says
    so."""

    def __init__(self, path, name, *, synthetic, layers=1, heads=1, columns=()):
        unknown = [column for column in columns if column not in COLUMNS]
        if unknown or len(set(columns)) != len(columns):
            raise TraceError(f"columns are some of {', '.join(COLUMNS)}, each once: not {', '.join(columns)}")
        if layers < 1 or heads < 1 or layers * heads > MOST_HEADS:
            raise TraceError(f"layers and heads are numbers from 1, whose product is at most {MOST_HEADS}")
        self.columns, self.heads = tuple(columns), layers * heads
        self.numbers, self.accesses, self.step, self.page = {}, 0, 0, 0
        self.file = open(path, "wb")  # noqa: SIM115: closed by close()
        described = {"name": name, "synthetic": synthetic, "layers": layers, "heads": heads, "columns": list(columns)}
        self.file.write(MAGIC + framed(VERSION, json.dumps(described).encode()))
        self._begin_block()

    def _begin_block(self):
        self.count = 0
        self.steps, self.pages, self.page_heads = bytearray(), bytearray(), bytearray()
        self.values = {column: bytearray() for column in self.columns}

    def add(self, step, page, *, head=0, **values):
        """An access. `head`, of the page, counts through all layers: layer * heads + head."""
        if step < self.step:
            raise TraceError(f"step {step} after step {self.step}: steps never go back")
        if not 0 <= head < self.heads:
            raise TraceError(f"head {head} of {self.heads}")
        if values.keys() != set(self.columns):
            raise TraceError(f"an access of this trace has {', '.join(self.columns) or 'no values'}")
        # Before anything of it is written: who catches the error can go on.
        packed = {column: self._packed(column, value) for column, value in values.items()}
        if page not in self.numbers:
            self.numbers[page] = len(self.numbers)
            self.page_heads += varint(head) if self.heads > 1 else b""
        number = self.numbers[page]
        self.steps += varint(step - self.step)
        self.pages += varint(zigzag(number - self.page))
        self.step, self.page = step, number
        for column, value in packed.items():
            self.values[column] += value
        self.count += 1
        self.accesses += 1
        if self.count == BLOCK_ACCESSES:
            self._end_block()

    @staticmethod
    def _packed(column, value):
        if column == "category":
            if not 0 <= value < 1 << 32:
                raise TraceError(f"category {value} is no number of 32 bits")
            return varint(int(value))
        if column == "mark":
            if not 0 <= value < MARKS:
                raise TraceError(f"mark {value} is no number from 0 to {MARKS - 1}")
            return varint(int(value))
        if not abs(value) <= MOST_FLOAT:
            raise TraceError(f"{column} {value} is no finite number of 32 bits")
        if column == "mass" and not 0 <= value <= MOST_MASS:
            raise TraceError(f"mass {value} is no number from 0 to 1")
        if column in ("entropy", "margin") and value < 0:
            raise TraceError(f"{column} {value} is below 0")
        return struct.pack("<f", value)

    def _end_block(self):
        if self.count:
            columns = b"".join(bytes(self.values[column]) for column in self.columns)
            self.file.write(framed(self.count, bytes(self.steps + self.pages + self.page_heads) + columns))
        self._begin_block()

    def close(self):
        self._end_block()
        self.file.write(framed(0, struct.pack("<Q", self.accesses)))
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            self.close()
        else:
            self.file.close()


class Payload:
    """The rest of a block, column after column."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def varint(self):
        value = shift = 0
        while True:
            if self.at == len(self.data) or shift > 63:
                raise TraceError("a column is cut off")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def floats(self, count):
        end = self.at + 4 * count
        if end > len(self.data):
            raise TraceError("a column is cut off")
        values = struct.unpack(f"<{count}f", self.data[self.at:end])
        self.at = end
        return values


class Reader:
    """Iterates over the accesses of a file. All errors are TraceErrors that name the file and the
    block.

    It leaves nothing out: values that are no numbers come as they are.
    """

    def __init__(self, path):
        self.path, self.blocks = path, 0
        self.file = open(path, "rb")  # noqa: SIM115: closed at the end of the iteration
        if self.file.read(len(MAGIC)) != MAGIC:
            raise TraceError(f"{path}: this is no access trace")
        version, head = self._framed()
        if version != VERSION:
            raise TraceError(f"{path}: it is of version {version} of the format, and version {VERSION} is known here")
        try:
            described = json.loads(head)
            self.name, self.synthetic, self.columns = described.get("name", ""), described["synthetic"], described["columns"]
            self.heads = described.get("layers", 1) * described.get("heads", 1)
            if any(column not in COLUMNS for column in self.columns):
                raise ValueError(f"columns are some of {', '.join(COLUMNS)}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TraceError(f"{path}: its head is not as the format has it: {error!r}") from error

    def _framed(self):
        head = self.file.read(HEAD.size)
        if len(head) < HEAD.size:
            raise TraceError(f"{self.path}: it ends in block {self.blocks}: it was cut off")
        number, size, crc = HEAD.unpack(head)
        data = self.file.read(min(size, BLOCK_BYTES))
        if len(data) < size:
            raise TraceError(f"{self.path}: it ends in block {self.blocks}: it was cut off")
        if zlib.crc32(data) != crc:
            raise TraceError(f"{self.path}: block {self.blocks} is damaged: its CRC-32 differs")
        return number, data

    def __iter__(self):
        with self.file:
            step, page, heads, total = 0, 0, [], 0
            while True:
                self.blocks += 1
                count, data = self._framed()
                if count == 0:
                    if data != struct.pack("<Q", total):
                        raise TraceError(f"{self.path}: {total} accesses came, where its end says otherwise")
                    return
                payload, steps, pages, named = Payload(data), [], [], len(heads)
                for _ in range(count):
                    step += payload.varint()
                    steps.append(step)
                for _ in range(count):
                    delta = payload.varint()
                    page += delta >> 1 ^ -(delta & 1)
                    if not 0 <= page <= named:
                        raise TraceError(f"{self.path}: block {self.blocks} names page {page} of {named}")
                    named += page == named
                    pages.append(page)
                heads += [payload.varint() if self.heads > 1 else 0 for _ in range(named - len(heads))]
                values = {column: [payload.varint() for _ in range(count)] if column in VARINTS else payload.floats(count)
                          for column in self.columns}
                total += count
                for i in range(count):
                    yield Access(steps[i], pages[i], heads[pages[i]], {column: values[column][i] for column in self.columns})
