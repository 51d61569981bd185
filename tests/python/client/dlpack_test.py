"""Memory of a GPU that is given by DLPack."""

import ctypes
import sys
import unittest

import numpy
from client_case import READY, contents, farpage, keys
from fake_gpu import PAGE_BYTES, GpuCase
from farpage import dlpack

make_capsule = ctypes.pythonapi.PyCapsule_New
make_capsule.restype, make_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
CPU, INTEGER = 1, 1  # kDLCPU, kDLUInt


class Array:
    """As an array of a library with DLPack, of version 1 or before."""

    def __init__(self, address, shape, *, strides=None, bits=8, lanes=1, offset=0, version=(1, 1), flags=0, device=(dlpack.CUDA, 0), name=None):
        self.device, self.is_old, self.asked = device, version is None, {}
        dimensions = ctypes.c_int64 * len(shape)
        self.shape, self.strides = dimensions(*shape), None if strides is None else dimensions(*strides)
        tensor = dlpack.Tensor(address, *device, len(shape), INTEGER, bits, lanes, self.shape, self.strides, offset)
        self.made = dlpack.Unversioned(tensor) if self.is_old else dlpack.Versioned(dlpack.Version(*version), None, None, flags, tensor)
        self.name = name or (b"dltensor" if self.is_old else b"dltensor_versioned")

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, **more):
        if self.is_old and more:
            raise TypeError("unexpected keyword")
        self.asked = {"stream": stream, **more}
        return make_capsule(ctypes.addressof(self.made), self.name, None)


class DlpackTest(GpuCase):
    def test_pages_are_fetched_into_it(self):
        source = contents(0, 2)
        self.put(keys(0, 2), source)
        for version in ((1, 0), (1, 3), None):
            array = Array(self.address, (2, PAGE_BYTES // 2), bits=16, offset=PAGE_BYTES, version=version)
            with self.subTest(version=version), self.client.register(array) as region:
                self.assertEqual((region.address, region.bytes, region.on_gpu), (self.address + PAGE_BYTES, 2 * PAGE_BYTES, True))
                verdicts = self.client.fetch(keys(0, 2), region.pages([0, PAGE_BYTES], PAGE_BYTES)).wait()
                self.assertTrue((verdicts["verdict"] == READY).all())
            seen = self.gpu.seen(self.address, 4 * PAGE_BYTES).reshape(4, PAGE_BYTES)
            numpy.testing.assert_array_equal(seen[1:3], source)
            self.assertTrue((seen[[0, 3]] == 0xA5).all())
            self.assertEqual(array.asked, {"stream": -1} if version is None else {"stream": -1, "max_version": (1, 0)})

    def test_the_length_is_that_of_its_elements(self):
        for shape, more, length in (((4, PAGE_BYTES), {}, 4 * PAGE_BYTES), ((), {"bits": 64}, 8), ((3, 5), {"bits": 32, "lanes": 4}, 240),
                                    ((8,), {"bits": 4, "lanes": 2}, 8), ((3, 5), {"strides": (5, 1)}, 15),
                                    ((1, 5), {"strides": (99, 1)}, 5)):
            with self.subTest(shape=shape, more=more), self.client.register(Array(self.address, shape, **more)) as region:
                self.assertEqual((region.address, region.bytes), (self.address, length))

    def test_what_is_wrong_is_named(self):
        for shape, more, words in (
                ((2, 5), {"strides": (6, 1)}, "the array is not contiguous"),
                ((2, 5), {"strides": (1, 2)}, "the array is not contiguous"),
                ((4,), {"flags": dlpack.READ_ONLY}, "the memory is read-only"),
                ((-4,), {}, "the DLPack capsule of a Array is not understood: a dimension is negative"),
                ((3,), {"bits": 4}, "its elements have 4 bits"),
                ((4,), {"version": (2, 0)}, "its version is 2.0, and not 1"),
                ((4,), {"name": b"used_dltensor_versioned"}, "no capsule of a tensor that nobody has taken"),
                ((0, 4), {}, "the 0 bytes at"),
                ((4,), {"device": (CPU, 0)}, "a Array is no buffer")):
            with self.subTest(words), self.assertRaisesRegex(farpage.InvalidError, words):
                self.client.register(Array(self.address, shape, **more))

    def test_it_keeps_array_and_capsule_until_it_is_closed(self):
        array = Array(self.address, (PAGE_BYTES,))
        ended = []
        # As a producer's destructor.
        end = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ended.append(True))
        capsule = make_capsule(ctypes.addressof(array.made), array.name, ctypes.cast(end, ctypes.c_void_p))
        given = [capsule]
        del capsule
        array.__class__ = type("Lent", (Array,), {"__dlpack__": lambda self, **_: given.pop()})
        region = self.client.register(array)
        self.assertEqual(ended, [])
        self.assertGreater(sys.getrefcount(array), 2)
        region.close()
        self.assertEqual(ended, [True])
        self.assertEqual(sys.getrefcount(array), 2)

    def test_a_capsule_of_numpy_says_the_same_as_its_array(self):
        array = numpy.arange(60, dtype=numpy.uint16).reshape(3, 4, 5)[1:, :, ::2]
        is_old = int(numpy.__version__.split(".")[0]) < 2
        capsule = array.__dlpack__() if is_old else array.__dlpack__(max_version=(1, 0))
        tensor, is_read_only = dlpack.tensor_in(capsule)
        self.assertEqual((tensor.data + tensor.byte_offset, tensor.device_type, tensor.bits, tensor.lanes, is_read_only),
                         (array.ctypes.data, CPU, 16, 1, False))
        self.assertEqual(tuple(tensor.shape[:tensor.dimensions]), array.shape)
        self.assertEqual(tuple(2 * stride for stride in tensor.strides[:tensor.dimensions]), array.strides)


if __name__ == "__main__":
    unittest.main()
