"""What the connector copies between a GPU's blocks and the host, with PyTorch's own operations: on
tensors of a CPU, since there is no GPU. Streams are stand-ins."""

import contextlib
import ctypes
import pathlib
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "python"))
import numpy  # noqa: E402
import torch  # noqa: E402
from truth import assert_bytes  # noqa: E402

from farpage.engines.connector_gpu import GpuBlocks  # noqa: E402
from farpage.engines.connector_memory import HostBlocks  # noqa: E402

BLOCKS, HEADS, TOKENS, WIDTH = 7, 2, 4, 8
ROWS = 5


def values(*shape):
    return torch.randint(0, 1 << 15, shape, dtype=torch.int16).view(torch.bfloat16)


def caches():
    """By what is special about each."""
    both = values(BLOCKS, 2, HEADS, TOKENS, WIDTH)
    return {"two layers": {"a": values(BLOCKS, HEADS, TOKENS, WIDTH), "b": values(BLOCKS, TOKENS, WIDTH)},
            "one tensor for two layers": {"a": both, "b": both},
            "blocks with a part of each layer": {"a": both[:, 0], "b": both[:, 1]},
            "tokens before heads": {"a": values(BLOCKS, TOKENS, HEADS, WIDTH).permute(0, 2, 1, 3)},
            "bytes": {"a": torch.randint(0, 256, (BLOCKS, 24), dtype=torch.uint8)}}


def block_in(pieces, number):
    """The bytes of a block, as the GPU would gather them."""
    block = b""
    for piece in pieces:
        said = piece.__cuda_array_interface__
        block += ctypes.string_at(said["data"][0] + number * said["strides"][0], said["shape"][1])
    return numpy.frombuffer(block, numpy.uint8)


class GpuBlocksTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)
        cuda = mock.patch.multiple(torch.cuda, Stream=mock.DEFAULT, stream=lambda stream: contextlib.nullcontext())
        cuda.start()
        self.addCleanup(cuda.stop)

    def test_blocks_are_read_as_in_the_hosts_memory(self):
        for name, tensors in caches().items():
            with self.subTest(name):
                host, gpu = HostBlocks(tensors, BLOCKS), GpuBlocks(tensors, BLOCKS)
                self.assertEqual((gpu.layout, gpu.lengths, gpu.place), (host.layout, host.lengths, host.place))
                self.assertEqual([(each.address, each.step) for each in gpu.layers], [(each.address, each.step) for each in host.layers])
                ours, wanted = (numpy.zeros((ROWS, host.block_bytes), numpy.uint8) for _ in range(2))
                host.read([6, 0, 3], wanted, [4, 1, 0])
                gpu.read([6, 0, 3], ours, [4, 1, 0])
                assert_bytes((ours == wanted).all(), name)
                self.assertTrue(wanted[[4, 1, 0]].any(axis=1).all() and not wanted[[2, 3]].any())

    def test_a_block_in_pieces_has_the_bytes_that_are_read(self):
        def register_blocks(pieces):
            registered.append(pieces)
            return types.SimpleNamespace()

        for name, tensors in caches().items():
            if name == "two layers":  # which have two lengths
                continue
            with self.subTest(name):
                registered = []
                gpu = GpuBlocks(tensors, BLOCKS)
                gpu.landing(types.SimpleNamespace(register_blocks=register_blocks), gpu.block_bytes)
                wanted = numpy.zeros((BLOCKS, gpu.block_bytes), numpy.uint8)
                gpu.read(list(range(BLOCKS)), wanted, list(range(BLOCKS)))
                for number in range(BLOCKS):
                    assert_bytes((block_in(registered[0], number) == wanted[number]).all(), name)

    def test_the_mark_is_an_event_on_vllms_stream(self):
        gpu = GpuBlocks(caches()["bytes"], BLOCKS)
        with mock.patch.object(torch.cuda, "current_stream") as stream:
            may_begin = gpu._mark()
        stream.assert_called_once_with(torch.device("cpu"))
        self.assertIs(may_begin, stream.return_value.record_event.return_value.query)

    def test_blocks_are_written_as_they_were_read_and_no_other_is(self):
        for name, tensors in caches().items():
            with self.subTest(name):
                before = {layer: tensor.clone() for layer, tensor in tensors.items()}
                gpu = GpuBlocks(tensors, BLOCKS)
                memory = numpy.zeros((ROWS, gpu.block_bytes), numpy.uint8)
                gpu.read([2, 5], memory, [0, 3])
                gpu.write([1, 2], memory, [3, 0])
                gpu.write([], memory, [])
                for layer, tensor in tensors.items():
                    wanted = before[layer]
                    wanted[1] = wanted[5].clone()
                    assert_bytes(torch.equal(tensor.view(torch.uint8), wanted.view(torch.uint8)), layer)


if __name__ == "__main__":
    unittest.main()
