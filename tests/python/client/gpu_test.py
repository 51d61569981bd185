"""Memory of a GPU: the fake driver stands in for one."""

import ctypes
import os
import sys
import types
import unittest
from unittest import mock

import numpy
from client_case import READY, ClientCase, contents, farpage, keys

PAGE_BYTES = 65536
PEEK = 7  # of the fake's strings


class FakeGpu:
    """Loaded first: the library then finds it by its name."""

    def __init__(self):
        self.driver = ctypes.CDLL(os.environ["FARPAGE_FAKE_CUDA"])
        self.driver.farpage_fake_cuda.restype = ctypes.POINTER(ctypes.c_void_p)
        peek = self.driver.farpage_fake_cuda()[PEEK]
        self._peek = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)(peek)
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

    def free(self, address):
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def seen(self, address, length):
        bytes_seen = numpy.zeros(length, numpy.uint8)
        assert self._peek(address, bytes_seen.ctypes.data, length) == 0
        return bytes_seen


class Array:
    """As other libraries' arrays."""

    def __init__(self, address, dimensions, **changes):
        self.__cuda_array_interface__ = {"shape": dimensions, "typestr": "|u1", "data": (address, False), "version": 3, **changes}


class GpuTest(ClientCase):
    @classmethod
    def setUpClass(cls):
        cls.gpu = FakeGpu()
        super().setUpClass()

    def setUp(self):
        self.address = self.gpu.allocate(4 * PAGE_BYTES)
        self.addCleanup(self.gpu.free, self.address)

    def test_pages_are_fetched_into_it(self):
        source = contents(0, 3)
        self.put(keys(0, 3), source)
        with self.client.register(Array(self.address, (4, PAGE_BYTES))) as region:
            self.assertEqual((region.address, region.bytes, region.on_gpu, region.read_only), (self.address, 4 * PAGE_BYTES, True, False))
            verdicts = self.client.fetch(keys(0, 4), region.pages([0, 2 * PAGE_BYTES, PAGE_BYTES, 3 * PAGE_BYTES], PAGE_BYTES)).wait()
        self.assertEqual((verdicts["verdict"] == READY).tolist(), [True, True, True, False])
        seen = self.gpu.seen(self.address, 4 * PAGE_BYTES).reshape(4, PAGE_BYTES)
        self.assertTrue((seen[[0, 2, 1]] == source).all())
        self.assertTrue((seen[3] == 0xA5).all())

    def test_it_is_no_source_of_puts(self):
        with self.client.register(Array(self.address, (PAGE_BYTES,))) as region:
            with self.assertRaisesRegex(farpage.InvalidError, "is a GPU's: copy the pages to host memory"):
                self.client.put(keys(0, 1), region.pages([0], PAGE_BYTES))

    def test_what_is_wrong_is_named(self):
        for changes, words in (
                ({"strides": (2 * PAGE_BYTES, 1)}, "not contiguous"),
                ({"data": (self.address, True)}, "read-only"),
                ({"typestr": "no type"}, "__cuda_array_interface__ of a Array is not understood"),
                ({"data": None}, "is not understood"),
                ({"data": (0x1000, False)}, "no memory that CUDA knows"),
                ({"shape": (0, 4)}, "the 0 bytes at"),
                ({"shape": (5, PAGE_BYTES)}, "only the first 262144 are mapped memory of cuda:0")):
            with self.subTest(words), self.assertRaisesRegex(farpage.InvalidError, words):
                self.client.register(Array(self.address, (4, PAGE_BYTES), **changes))
        region = self.client.register(Array(self.address, (4, PAGE_BYTES), strides=(PAGE_BYTES, 1)))
        with self.assertRaises(farpage.RegisteredError):
            self.client.register(Array(self.address, (1, PAGE_BYTES)))
        region.close()

    def test_it_keeps_its_owner_until_it_is_closed(self):
        owner = Array(self.address, (PAGE_BYTES,))
        region = self.client.register(owner)
        self.assertGreater(sys.getrefcount(owner), 2)
        region.close()
        self.assertEqual(sys.getrefcount(owner), 2)

    def test_a_tensor_on_a_gpu_is_taken_by_its_address(self):
        class Tensor:
            device = types.SimpleNamespace(type="cuda")

            def __init__(self, address, is_whole=True):
                self.address, self.is_whole = address, is_whole

            def is_contiguous(self):
                return self.is_whole

            def data_ptr(self):
                return self.address

            def numel(self):
                return PAGE_BYTES // 2

            def element_size(self):
                return 2

        with mock.patch.dict(sys.modules, torch=types.SimpleNamespace(Tensor=Tensor)):
            with self.client.register(Tensor(self.address)) as region:
                self.assertEqual((region.address, region.bytes), (self.address, PAGE_BYTES))
            with self.assertRaisesRegex(farpage.InvalidError, "not contiguous"):
                self.client.register(Tensor(self.address, is_whole=False))


if __name__ == "__main__":
    unittest.main()
