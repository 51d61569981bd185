"""Blocks that lie in a GPU's memory in pieces: the fake driver stands in for a GPU."""

import sys
import types
import unittest
import weakref
from unittest import mock

import numpy
from client_case import READY, contents, farpage, keys
from dlpack_test import Array as DlpackArray
from fake_gpu import PAGE_BYTES, Array, GpuCase

BLOCKS, PIECES, LENGTH = 8, 4, 4096  # LENGTH: bytes of a piece of a block
BLOCK_BYTES = PIECES * LENGTH
UNTOUCHED = 0xA5  # as the fake fills what it allocates


class Tensor:
    """As one of PyTorch's, of elements of two bytes."""

    device = types.SimpleNamespace(type="cuda")

    def __init__(self, address, shape, steps=None):
        self.address, self.shape, self.steps = address, shape, steps or (LENGTH // 2, 1)

    def data_ptr(self):
        return self.address

    def element_size(self):
        return 2

    def stride(self):
        return self.steps


def apart(address, count=BLOCKS):
    """Pieces that lie one behind the other, as of layers that have a tensor each."""
    return [Array(address + piece * count * LENGTH, (count, LENGTH)) for piece in range(PIECES)]


def side_by_side(address, count=BLOCKS):
    """All pieces of a block, and then those of the next."""
    return [Array(address + piece * LENGTH, (count, LENGTH), strides=(BLOCK_BYTES, 1)) for piece in range(PIECES)]


class GpuBlocksTest(GpuCase):
    def setUp(self):
        self.address = self.gpu.allocate(BLOCKS * BLOCK_BYTES)
        self.addCleanup(self.gpu.free, self.address)

    def registered(self, pieces):
        region = self.client.register_blocks(pieces)
        self.addCleanup(region.close)
        return region

    def seen(self, *, is_apart):
        """The bytes of each block, as a page has them."""
        whole = self.gpu.seen(self.address, BLOCKS * BLOCK_BYTES)
        return (whole.reshape(PIECES, BLOCKS, LENGTH).swapaxes(0, 1) if is_apart else whole).reshape(BLOCKS, BLOCK_BYTES)

    def write(self, blocks, *, is_apart):
        pieces = blocks.reshape(BLOCKS, PIECES, LENGTH)
        self.gpu.write(self.address, numpy.ascontiguousarray(pieces.swapaxes(0, 1) if is_apart else pieces))

    def test_pages_are_fetched_into_blocks_in_any_order(self):
        source = contents(0, 3, BLOCK_BYTES)
        self.put(keys(0, 3), source)
        for is_apart, pieces in ((True, apart(self.address)), (False, side_by_side(self.address))):
            before = self.seen(is_apart=is_apart)
            with self.subTest(is_apart=is_apart), self.client.register_blocks(pieces) as region:
                self.assertEqual((region.bytes, region.block_bytes, region.on_gpu, region.read_only), (BLOCKS * BLOCK_BYTES, BLOCK_BYTES, True, False))
                # The page of block 3 is missing.
                verdicts = self.client.fetch(keys(0, 4), region.blocks([6, 0, 1, 3])).wait()
                self.assertEqual((verdicts["verdict"] == READY).tolist(), [True, True, True, False])
                wanted = before.copy()
                wanted[[6, 0, 1]] = source
                numpy.testing.assert_array_equal(self.seen(is_apart=is_apart), wanted)
                self.assertTrue((wanted[3] == UNTOUCHED).all())
                self.gpu.write(self.address, numpy.full(BLOCKS * BLOCK_BYTES, UNTOUCHED, numpy.uint8))

    def test_pages_at_the_regions_addresses_are_blocks(self):
        region = self.registered(apart(self.address))
        by_number, by_offset = region.blocks([5, 2]), region.pages([5 * BLOCK_BYTES, 2 * BLOCK_BYTES], BLOCK_BYTES)
        self.assertEqual(by_number.rows.tolist(), by_offset.rows.tolist())
        source = contents(10, 2, BLOCK_BYTES)
        self.put(keys(10, 2), source)
        self.fetch(keys(10, 2), by_offset)
        numpy.testing.assert_array_equal(self.seen(is_apart=True)[[5, 2]], source)
        self.assertEqual(len(region.blocks([])), 0)
        for numbers in ([BLOCKS], [-1], [1.0], ["1"], [1 << 62], numpy.array([1 << 63], numpy.uint64)):
            with self.subTest(numbers), self.assertRaisesRegex(farpage.InvalidError, f"there are {BLOCKS} pages"):
                region.blocks(numbers)

    def test_numbers_beyond_64_bits_are_refused(self):
        much = 1 << 64
        for shape, address, step in (((BLOCKS, LENGTH), self.address + much, LENGTH), ((BLOCKS, LENGTH), self.address - much, LENGTH),
                                     ((BLOCKS, LENGTH), self.address, LENGTH + much), ((BLOCKS + much, LENGTH), self.address, LENGTH)):
            wrong = Array(address, shape, strides=(step, 1))
            for call in (lambda: self.client.register_blocks([wrong]), lambda: self.client.register(wrong)):
                with self.subTest(shape=shape, address=address, step=step), self.assertRaises(farpage.InvalidError):
                    call()

    def test_a_region_that_is_let_go_goes_at_once(self):
        region = self.client.register_blocks(apart(self.address))
        region.blocks([0])
        region.close()
        gone = weakref.ref(region)
        del region
        self.assertIsNone(gone())

    def test_what_is_no_whole_block_is_refused(self):
        region, memory = self.registered(apart(self.address)), numpy.zeros(BLOCK_BYTES, numpy.uint8)
        for offsets, length in (([LENGTH], BLOCK_BYTES), ([0], LENGTH), ([0], 2 * BLOCK_BYTES)):
            pages = region.pages(offsets, length)
            for call in (self.client.fetch, self.client.put):
                with self.subTest(offsets=offsets, length=length), self.assertRaisesRegex(farpage.InvalidError, "is no whole block"):
                    call(keys(0, 1), pages)
        self.put(keys(11, 1), memory)  # and the client goes on
        self.assertTrue((self.seen(is_apart=True) == UNTOUCHED).all())

    def test_blocks_are_put(self):
        source = contents(20, BLOCKS, BLOCK_BYTES)
        for first, is_apart, pieces in ((20, True, apart(self.address)), (30, False, side_by_side(self.address))):
            self.write(source, is_apart=is_apart)
            with self.subTest(is_apart=is_apart), self.client.register_blocks(pieces) as region:
                self.put_at_last(keys(first, 3), region.blocks([7, 0, 4]))
            landed = numpy.zeros((3, BLOCK_BYTES), numpy.uint8)
            self.fetch(keys(first, 3), landed)
            numpy.testing.assert_array_equal(landed, source[[7, 0, 4]])

    def put_at_last(self, names, pages):
        """On a busy machine the connection to the node may be lost: again then."""
        while True:
            ticket = self.client.put(names, pages)
            codes = set(ticket.wait()["code"])
            ticket.wait_released()
            if codes == {farpage.Code.OK}:
                return
            self.assertLessEqual(codes, {farpage.Code.OK, farpage.Code.UNAVAILABLE, farpage.Code.TIMEOUT})

    def test_a_put_waits_for_the_work_of_a_stream(self):
        source = contents(40, 1, BLOCK_BYTES)
        stream = self.gpu.make_stream()
        other = self.gpu.allocate(BLOCK_BYTES)
        self.addCleanup(self.gpu.free, other)
        self.gpu.write(other, source)
        region, number = self.registered(side_by_side(self.address)), 2
        while True:
            self.gpu.hold(stream)
            self.gpu.copy(self.address + number * BLOCK_BYTES, other, BLOCK_BYTES, stream)
            ticket = self.client.put(keys(40, 1), region.blocks([number]), stream=types.SimpleNamespace(cuda_stream=stream))
            self.assertFalse(ticket.done)
            self.gpu.release(stream)
            codes = set(ticket.wait()["code"])
            ticket.wait_released()
            if codes == {farpage.Code.OK}:
                break
            self.assertLessEqual(codes, {farpage.Code.UNAVAILABLE, farpage.Code.TIMEOUT})
        landed = numpy.zeros_like(source)
        self.fetch(keys(40, 1), landed)
        numpy.testing.assert_array_equal(landed, source)

    def test_all_kinds_of_arrays_are_pieces(self):
        source = contents(50, 1, BLOCK_BYTES)
        self.put(keys(50, 1), source)
        step = BLOCKS * LENGTH
        pieces = (Array(self.address, (BLOCKS, 2, LENGTH // 2)), Tensor(self.address + step, (BLOCKS, LENGTH // 2)),
                  DlpackArray(self.address, (BLOCKS, LENGTH // 4), bits=32, offset=2 * step),
                  DlpackArray(self.address + 3 * step, (BLOCKS, 1, LENGTH // 2), bits=16, strides=(LENGTH // 2, 99, 1)))
        with mock.patch.dict(sys.modules, torch=types.SimpleNamespace(Tensor=Tensor)), self.client.register_blocks(pieces) as region:
            self.fetch(keys(50, 1), region.blocks([4]))
        numpy.testing.assert_array_equal(self.seen(is_apart=True)[[4]], source)

    def test_a_single_block_has_no_step(self):
        source = contents(60, 1, BLOCK_BYTES)
        self.put(keys(60, 1), source)
        for step in (0, 7, 10 * LENGTH, -LENGTH):
            pieces = [Array(self.address + piece * LENGTH, (1, LENGTH), strides=(step * (piece + 1), 1)) for piece in range(PIECES)]
            with self.subTest(step), self.client.register_blocks(pieces) as region:
                self.fetch(keys(60, 1), region.blocks([0]))
                numpy.testing.assert_array_equal(self.seen(is_apart=False)[[0]], source)

    def test_what_is_wrong_with_pieces_is_named(self):
        good = Array(self.address, (BLOCKS, LENGTH))
        other = self.address + BLOCKS * LENGTH
        for pieces, sentence in (
                ([], "there are no pieces"),
                (good, "the pieces are a Array: give a list"),
                ([good, numpy.zeros((BLOCKS, LENGTH), numpy.uint8)], r"piece 1, a ndarray, is not in a GPU's memory.*Use register\(\) for each buffer"),
                ([good, "text"], "piece 1, a str, is not in a GPU's memory"),
                ([good, DlpackArray(other, (BLOCKS, LENGTH), device=(1, 0))], "piece 1, a Array, is not in a GPU's memory"),
                ([good, Array(other, (BLOCKS, LENGTH), data=(other, True))], "read-only"),
                ([good, Array(other, ())], "piece 1 has no dimensions"),
                ([good, Array(other, (0, LENGTH))], "piece 1 is empty"),
                ([good, Array(other, (BLOCKS, 0))], "piece 1 is empty"),
                ([good, Array(other, (BLOCKS, 2, LENGTH // 2), strides=(LENGTH, BLOCKS * LENGTH, 1))], "blocks have gaps within piece 1"),
                ([good, Array(other, (BLOCKS, 2, LENGTH // 2), strides=(LENGTH, 1, 2))], "blocks have gaps within piece 1"),
                ([good, Array(other, (BLOCKS, LENGTH), strides=(LENGTH,))], "blocks have gaps within piece 1"),
                ([good, Array(other, (BLOCKS, LENGTH), strides=(LENGTH - 1, 1))], "blocks of piece 1 overlap or lie in falling order"),
                ([good, Array(other, (BLOCKS, LENGTH), strides=(-LENGTH, 1))], "blocks of piece 1 overlap or lie in falling order"),
                ([good, good, Array(other, (BLOCKS - 1, LENGTH))], "piece 0 has 8 blocks of 4096 bytes, 4096 bytes apart, and piece 2 has 7 blocks of 4096 bytes"),
                ([good, Array(other, (BLOCKS, LENGTH // 2), strides=(LENGTH, 1))], "and piece 1 has 8 blocks of 2048 bytes, 4096 bytes apart"),
                ([good, Array(other, (BLOCKS, LENGTH), strides=(2 * LENGTH, 1))], "and piece 1 has 8 blocks of 4096 bytes, 8192 bytes apart")):
            with self.subTest(sentence), self.assertRaisesRegex(farpage.InvalidError, sentence):
                self.client.register_blocks(pieces)
        half = Array(self.address + LENGTH // 2, (BLOCKS, LENGTH))
        unknown, long = Array(0x1000, (BLOCKS, LENGTH)), Array(self.address, (2, BLOCKS * BLOCK_BYTES))
        for pieces, sentence in (([good, good], "pieces 0 and 1 of the blocks overlap"), ([good, half], "pieces 0 and 1 of the blocks overlap"),
                                 ([good, unknown], "no memory that CUDA knows"), ([long], "only the first 131072 are mapped memory of cuda:0")):
            with self.subTest(sentence), self.assertRaisesRegex(farpage.InvalidError, sentence):
                self.client.register_blocks(pieces)
        self.registered(apart(self.address))  # nothing of them is registered still

    def test_other_regions_have_no_blocks(self):
        memory = numpy.zeros((4, PAGE_BYTES), numpy.uint8)
        for given in (Array(self.address, (BLOCKS, LENGTH)), memory):
            with self.client.register(given) as region:
                self.assertEqual(region.block_bytes, 0)
                with self.assertRaisesRegex(farpage.InvalidError, r"the region has no blocks.*Client.register_blocks\(\)"):
                    region.blocks([0])

    def test_it_keeps_its_owners_until_it_is_closed(self):
        pieces = apart(self.address)
        region = self.client.register_blocks(pieces)
        self.assertGreater(min(map(sys.getrefcount, pieces)), sys.getrefcount(object()) + 1)
        pages = region.blocks([0])
        region.close()
        self.assertEqual({sys.getrefcount(pieces[place]) for place in range(PIECES)}, {2})
        for call in (self.client.fetch, self.client.put):
            for given in (pages, region.blocks([1])):
                with self.assertRaisesRegex(farpage.InvalidError, "the region of these pages is closed"):
                    call(keys(0, 1), given)

    def test_what_is_not_known_to_its_end_is_not_registered(self):
        """A signal may come behind the call that registers."""
        library = farpage._library.c
        real = library.region_address

        def interrupted(handle):
            raise KeyboardInterrupt

        with mock.patch.object(library, "region_address", interrupted), self.assertRaises(KeyboardInterrupt):
            self.client.register_blocks(apart(self.address))
        self.assertIs(library.region_address, real)
        self.assertEqual(self.client._regions._sorted, ([], []))
        self.registered(apart(self.address))


if __name__ == "__main__":
    unittest.main()
