"""The fake driver, with which tests make memory of a GPU and look at it."""

import ctypes
import os

import numpy
from client_case import ClientCase

PAGE_BYTES = 65536
FAIL_CALL, HOLD, RELEASE, NIC_WRITE, PEEK = 2, 5, 6, 7, 8  # of the fake's strings
OVERTAKES = 1  # what device work sees at once


class FakeGpu:
    """Loaded first: the library then finds it by its name."""

    def __init__(self):
        self.driver = ctypes.CDLL(os.environ["FARPAGE_FAKE_CUDA"])
        self.driver.farpage_fake_cuda.restype = ctypes.POINTER(ctypes.c_void_p)
        peek = self.driver.farpage_fake_cuda()[PEEK]
        self._peek = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)(peek)
        fail = self.driver.farpage_fake_cuda()[FAIL_CALL]
        self._fail = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)(fail)
        strings = self.driver.farpage_fake_cuda()
        self.hold, self.release = (ctypes.CFUNCTYPE(None, ctypes.c_void_p)(strings[i]) for i in (HOLD, RELEASE))
        self._write = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(strings[NIC_WRITE])
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        assert result == 0, (name, result)

    def allocate(self, length):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(length))
        return address.value

    def fail(self, name):
        self._fail(name.encode(), 1, 800)

    def make_stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value

    def copy(self, to, origin, length, stream):
        self.call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(to), ctypes.c_uint64(origin), ctypes.c_size_t(length), ctypes.c_void_p(stream))

    def wait(self, stream):
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def write(self, address, source):
        assert self._write(address, source.ctypes.data, source.nbytes, OVERTAKES) == 0

    def seen(self, address, length):
        bytes_seen = numpy.zeros(length, numpy.uint8)
        assert self._peek(address, bytes_seen.ctypes.data, length) == 0
        return bytes_seen


class Array:
    """As other libraries' arrays."""

    def __init__(self, address, dimensions, **changes):
        self.__cuda_array_interface__ = {"shape": dimensions, "typestr": "|u1", "data": (address, False), "version": 3, **changes}


class GpuCase(ClientCase):
    """A client beside a GPU, and memory there for four pages."""

    @classmethod
    def setUpClass(cls):
        cls.gpu = FakeGpu()
        super().setUpClass()

    def setUp(self):
        self.address = self.gpu.allocate(4 * PAGE_BYTES)
        self.addCleanup(self.gpu.free, self.address)
