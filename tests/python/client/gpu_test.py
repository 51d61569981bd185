"""Memory of a GPU: the fake driver stands in for one."""

import sys
import types
import unittest
from unittest import mock

import numpy
from client_case import READY, contents, farpage, keys
from fake_gpu import PAGE_BYTES, Array, GpuCase


class GpuTest(GpuCase):
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

    def test_a_stream_waits_at_the_fence_of_a_fetch(self):
        source = contents(0, 3)
        self.put(keys(0, 3), source)
        stream = self.gpu.make_stream()
        seen = self.gpu.allocate(4 * PAGE_BYTES)
        self.addCleanup(self.gpu.free, seen)
        with self.client.register(Array(self.address, (4, PAGE_BYTES))) as region, self.client.fence(0, 4) as fence:
            self.assertEqual(fence.pages, 4)
            for given in (stream, types.SimpleNamespace(cuda_stream=stream), types.SimpleNamespace(ptr=stream),
                          types.SimpleNamespace(__cuda_stream__=lambda: (0, stream))):
                ticket = self.client.fetch(keys(0, 4), region.pages(range(0, 4 * PAGE_BYTES, PAGE_BYTES), PAGE_BYTES), fence=fence, stream=given)
                self.gpu.copy(seen, self.address, 4 * PAGE_BYTES, stream)
                self.gpu.wait(stream)
                numpy.testing.assert_array_equal(self.gpu.seen(seen, 3 * PAGE_BYTES).reshape(3, -1), source)
                self.assertEqual(list(ticket.wait()["verdict"] == READY), [True, True, True, False])
                self.assertEqual(self.words(fence), (0b0111, True))
            fence.clear()
            self.assertEqual(self.words(fence), (0, True))

    def test_a_fence_has_no_page_ready_after_a_fetch_that_failed(self):
        self.put(keys(0, 2), contents(0, 2))
        with self.client.register(Array(self.address, (4, PAGE_BYTES))) as region, self.client.fence(0, 2) as fence:
            pages = region.pages([0, PAGE_BYTES], PAGE_BYTES)
            for wrong in (dict(stream="s"), dict(timeout_s="x"), dict(min_version=-1)):
                self.client.fetch(keys(0, 2), pages, fence=fence).wait()
                self.assertEqual(self.words(fence), (0b11, True))
                with self.assertRaises((farpage.InvalidError, TypeError)):
                    self.client.fetch(keys(0, 2), pages, fence=fence, **wrong)
                self.assertEqual(self.words(fence), (0, True))
            self.client.fetch(keys(0, 2), pages, fence=fence).wait()
            with self.assertRaisesRegex(farpage.InvalidError, "a fetch of 4 pages, and its fence is for 2"):
                self.client.fetch(keys(0, 4), region.pages(range(0, 4 * PAGE_BYTES, PAGE_BYTES), PAGE_BYTES), fence=fence)
            self.assertEqual(self.words(fence), (0, True))

    def test_a_fetch_whose_stream_cannot_wait_is_over_when_it_says_so(self):
        self.put(keys(0, 2), contents(0, 2))
        with self.client.register(Array(self.address, (4, PAGE_BYTES))) as region, self.client.fence(0, 2) as fence:
            pages = region.pages([0, PAGE_BYTES], PAGE_BYTES)
            for call in ("cuLaunchKernel", "cuStreamWaitValue64_v2"):  # the one or the other
                self.gpu.fail(call)
            with self.assertRaises(farpage.UnavailableError):
                self.client.fetch(keys(0, 2), pages, fence=fence, stream=0)
            self.assertEqual(self.words(fence), (0, True))
            self.client.fetch(keys(0, 2), pages, fence=fence).wait()
            self.assertEqual(self.words(fence), (0b11, True))

    def test_a_fence_needs_a_timeout_and_its_own_client(self):
        with self.client.register(Array(self.address, (4, PAGE_BYTES))) as region, self.client.fence(0, 2) as fence:
            pages = region.pages([0, PAGE_BYTES], PAGE_BYTES)
            with self.assertRaisesRegex(farpage.InvalidError, "give it a timeout"):
                self.client.fetch(keys(0, 2), pages, fence=fence, timeout_s=None)
            with farpage.open(embedded={"pool_bytes": "1MiB"}) as other:
                with self.assertRaisesRegex(farpage.InvalidError, "another client's"):
                    other.fetch(keys(0, 1), numpy.zeros((1, 64), numpy.uint8), fence=fence)

    def test_what_is_wrong_with_a_fence_is_named(self):
        with self.client.register(Array(self.address, (4, PAGE_BYTES))) as region:
            pages = region.pages(range(0, 4 * PAGE_BYTES, PAGE_BYTES), PAGE_BYTES)
            fence = self.client.fence(0, 4)
            fence.close()
            fence.close()
            for arguments, sentence in ((dict(stream=1), "give one of Client.fence"), (dict(fence=7), "7 is no fence"),
                                        (dict(fence=fence), "the fence is closed")):
                with self.assertRaisesRegex(farpage.InvalidError, sentence):
                    self.client.fetch(keys(0, 4), pages, **arguments)
            for call in (fence.clear, lambda: fence.wait(0)):
                with self.assertRaisesRegex(farpage.InvalidError, "fence is null"):
                    call()
            for device, count, sentence in ((0, 0, "no fence for 0 pages"), (-1, 1, "on cuda:-1"), (0, 1.5, "pages is no whole number"),
                                            (0, 1 << 30, "give it 1 to 16777216")):
                with self.assertRaisesRegex(farpage.InvalidError, sentence):
                    self.client.fence(device, count)
            with self.assertRaisesRegex(farpage.UnavailableError, "cuda:9"):
                self.client.fence(9, 1)

    def test_a_fence_outlives_its_client(self):
        self.put(keys(0, 2), contents(0, 2))
        client = farpage.open(embedded={"pool_bytes": "1MiB"})
        fence = client.fence(0, 2)
        client.close()
        self.assertEqual(self.words(fence), (0, True))
        fence.wait(0)
        self.gpu.wait(None)  # no stream waits at it any more
        fence.close()

    def words(self, fence):
        """The first 32 bits, and whether the last fetch is decided."""
        seen = self.gpu.seen(fence.address, 68)
        begun, decided = seen[:16].view("u8")
        return int(seen[64:].view("u4")[0]), bool(begun == decided)

    def is_put(self, ticket):
        """On a busy machine the connection to the node may be lost: then not."""
        codes = set(ticket.wait()["code"])
        ticket.wait_released()
        self.assertLessEqual(codes, {farpage.Code.OK, farpage.Code.UNAVAILABLE, farpage.Code.TIMEOUT})
        self.assertEqual(codes == {farpage.Code.OK}, ticket.why() == "")
        return codes == {farpage.Code.OK}

    def test_pages_are_put_from_it(self):
        source = contents(0, 3)
        self.gpu.write(self.address, source)
        with self.client.register(Array(self.address, (4, PAGE_BYTES))) as region:
            while not self.is_put(self.client.put(keys(0, 3), region.pages([0, PAGE_BYTES, 2 * PAGE_BYTES], PAGE_BYTES))):
                pass
        landed = numpy.zeros_like(source)
        self.fetch(keys(0, 3), landed)
        numpy.testing.assert_array_equal(landed, source)

    def test_a_put_waits_for_the_work_of_a_stream(self):
        source = contents(5, 1)
        stream = self.gpu.make_stream()
        other = self.gpu.allocate(PAGE_BYTES)
        self.addCleanup(self.gpu.free, other)
        self.gpu.write(other, source)
        with self.client.register(Array(self.address, (4, PAGE_BYTES))) as region:
            page = region.pages([0], PAGE_BYTES)
            self.gpu.hold(stream)
            self.gpu.copy(self.address, other, PAGE_BYTES, stream)
            late = self.client.put(keys(5, 1), page, stream=types.SimpleNamespace(cuda_stream=stream), timeout_s=0.02)
            self.assertEqual(list(late.wait()["code"]), [farpage.Code.TIMEOUT])
            self.assertIn("the stream of cuda:0 had not come so far", late.why())
            late.wait_released()
            while True:
                ticket = self.client.put(keys(5, 1), page, stream=stream)
                self.assertFalse(ticket.done)
                self.gpu.release(stream)
                if self.is_put(ticket):
                    break
                self.gpu.hold(stream)
                self.gpu.copy(self.address, other, PAGE_BYTES, stream)
        landed = numpy.zeros_like(source)
        self.fetch(keys(5, 1), landed)
        numpy.testing.assert_array_equal(landed, source)

    def test_what_is_wrong_with_a_put_is_named(self):
        with self.client.register(Array(self.address, (4, PAGE_BYTES))) as region:
            for memory, stream, sentence in ((region.pages([0], PAGE_BYTES), "s", "a str is no stream"),
                                             (numpy.zeros((1, 64), numpy.uint8), 0, "the pages are in host memory")):
                with self.subTest(sentence), self.assertRaisesRegex(farpage.InvalidError, sentence):
                    self.client.put(keys(0, 1), memory, stream=stream)

    def test_what_is_wrong_is_named(self):
        for changes, words in (
                ({"strides": (2 * PAGE_BYTES, 1)}, "not contiguous"),
                ({"data": (self.address, True)}, "read-only"),
                ({"typestr": "no type"}, "__cuda_array_interface__ of a Array is not understood"),
                ({"data": None}, "is not understood"),
                ({"shape": (-4, -PAGE_BYTES)}, "is not understood: a dimension is negative"),
                ({"mask": Array(self.address, (1,))}, "is not understood: it has a mask"),
                ({"strides": (PAGE_BYTES,)}, "not contiguous"),
                ({"data": (0x1000, False)}, "no memory that CUDA knows"),
                ({"shape": (0, 4)}, "the 0 bytes at"),
                ({"shape": (5, PAGE_BYTES)}, "only the first 262144 are mapped memory of cuda:0")):
            with self.subTest(words), self.assertRaisesRegex(farpage.InvalidError, words):
                self.client.register(Array(self.address, (4, PAGE_BYTES), **changes))
        region = self.client.register(Array(self.address, (4, PAGE_BYTES), strides=(PAGE_BYTES, 1)))
        region.close()
        # Nothing lies a stride behind.
        region = self.client.register(Array(self.address, (1, 4 * PAGE_BYTES), strides=(7, 1)))
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
            device, shape = types.SimpleNamespace(type="cuda"), (2, PAGE_BYTES // 4)

            def __init__(self, address, steps=(PAGE_BYTES // 4, 1)):
                self.address, self.steps = address, steps

            def data_ptr(self):
                return self.address

            def stride(self):
                return self.steps

            def element_size(self):
                return 2

        with mock.patch.dict(sys.modules, torch=types.SimpleNamespace(Tensor=Tensor)):
            with self.client.register(Tensor(self.address)) as region:
                self.assertEqual((region.address, region.bytes), (self.address, PAGE_BYTES))
            with self.assertRaisesRegex(farpage.InvalidError, "not contiguous"):
                self.client.register(Tensor(self.address, (PAGE_BYTES, 1)))


if __name__ == "__main__":
    unittest.main()
