"""What tests of the client in Python share: bytes whose truth hashlib knows, and a client of an
embedded node."""

import faulthandler
import hashlib
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "python"))
faulthandler.enable()
if sys.argv[0] != "-c":  # its thread is missing in the child of a fork, which would wait for it
    faulthandler.dump_traceback_later(240, exit=True)
import farpage  # noqa: E402
import numpy  # noqa: E402

# Busy machines answer late; a case that is about timeouts names its own.
for call in ("fetch", "put", "exists", "remove", "leading"):
    getattr(farpage.Client, call).__kwdefaults__["timeout_s"] = 60.0

PAGE_BYTES = 65536
READY, RECOMPUTE = farpage.Verdict.READY, farpage.Verdict.RECOMPUTE


def content(number, length=PAGE_BYTES):
    """The bytes of a page."""
    return hashlib.shake_128(b"page %d" % number).digest(length)


def key(number):
    return hashlib.sha256(b"key %d" % number).digest()[:16]


def keys(first, count):
    return [key(number) for number in range(first, first + count)]


def contents(first, count, length=PAGE_BYTES):
    """Pages as an array of their own, one a row."""
    whole = b"".join(content(number, length) for number in range(first, first + count))
    return numpy.frombuffer(bytearray(whole), numpy.uint8).reshape(count, length)


class ClientCase(unittest.TestCase):
    """One client for all cases of a class; each has pages of its own."""

    settings = {"embedded": {"pool_bytes": "64MiB"}}

    @classmethod
    def setUpClass(cls):
        cls.client = farpage.open(**cls.settings)
        cls.addClassCleanup(cls.client.close)

    def put(self, names, memory, client=None):
        results = (client or self.client).put(names, memory, timeout_s=30).wait()
        self.assertEqual(set(results["code"]), {farpage.Code.OK})
        return results

    def settle(self):
        """Until no operation lends memory any more: the next ones let it go."""
        while self.client._operations:
            self.client.exists(key(1)).wait()

    def fetch(self, names, memory, client=None):
        verdicts = (client or self.client).fetch(names, memory, timeout_s=30).wait()
        self.assertEqual(set(verdicts["verdict"]), {READY}, verdicts)
        return verdicts


def run_script(text, *, timeout_s=60, **options):
    """The result of a program in Python of its own, without what the client logs of nodes that
    went."""
    program = [sys.executable, "-B", "-X", "faulthandler", "-W", "error", "-c", f"import sys; sys.path[:0] = {sys.path[:3]!r}\n{text}"]
    result = subprocess.run(program, capture_output=True, text=True, timeout=timeout_s, check=False, **options)
    result.stderr = "".join(line for line in result.stderr.splitlines(keepends=True) if "[farpage] [warning]" not in line)
    return result
