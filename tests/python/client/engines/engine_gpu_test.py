"""vLLM's connector where the KV cache lies in a GPU's memory: pages of layers are fetched straight
into it. The fake driver stands in for the GPU, and objects for vLLM's tensors."""

import math
import unittest

import numpy
from client_case import ClientCase, farpage
from fake_gpu import FakeGpu
from farpage.engines.connector_gpu import GpuBlocks, cache_blocks
from farpage.engines.connector_loads import LayerLoads
from farpage.engines.figures import Figures
from farpage.engines.connector_plan import Blocks, Shard

BLOCKS, LAYERS, LENGTH = 6, 2, 4096  # LENGTH: bytes of a block of a layer
SHAPE = (BLOCKS, 2, LENGTH // 4)  # of two bytes each
SPACE = farpage.KeySpace(model="m")


class Device:
    type = "cuda"

    def __init__(self, number=0):
        self.number = number

    def __str__(self):
        return f"cuda:{self.number}"


class Tensor:
    """As one of PyTorch's, of elements of two bytes."""

    dtype = "torch.bfloat16"

    def __init__(self, address, shape=SHAPE, strides=None, device=None):
        self.address, self.shape, self.device = address, shape, device or Device()
        self.strides = strides or tuple(math.prod(shape[place + 1:]) for place in range(len(shape)))

    def data_ptr(self):
        return self.address

    def element_size(self):
        return 2

    def stride(self):
        return self.strides


class EngineGpuTest(ClientCase):
    @classmethod
    def setUpClass(cls):
        cls.gpu = FakeGpu()
        super().setUpClass()

    def setUp(self):
        self.address = self.gpu.allocate(LAYERS * BLOCKS * LENGTH)
        self.addCleanup(self.gpu.free, self.address)
        self.figures = Figures()

    def tensors(self):
        """Of two layers: block after block, each with its part of both."""
        step = (LAYERS * LENGTH // 2, LENGTH // 4, 1)
        return {f"layer {layer}": Tensor(self.address + layer * LENGTH, strides=step) for layer in range(LAYERS)}

    def cache(self):
        cache = cache_blocks(self.tensors(), BLOCKS)
        cache.register(self.client)
        self.addCleanup(cache._regions[0].close)
        return cache

    def seen(self):
        return self.gpu.seen(self.address, LAYERS * BLOCKS * LENGTH).reshape(BLOCKS, LAYERS, LENGTH)

    def test_layers_come_straight_into_their_blocks(self):
        shard, source = Shard(SPACE, LAYERS), numpy.random.default_rng(7).integers(0, 256, (2 * LAYERS, LENGTH), numpy.uint8)
        self.put(list(map(bytes, shard.keys([b"a", b"b"]).reshape(-1, 16))), source)
        cache, order = self.cache(), []
        self.assertEqual([(region.address, region.bytes) for region in cache._regions], [(self.address, LAYERS * BLOCKS * LENGTH)])
        cache.wait_until_unused = lambda: order.append(self.seen().tolist())
        loads = LayerLoads(cache, shard, 60, self.figures)
        before = self.seen()
        loads.begin(self.client, [Blocks("r", [b"a", b"none", b"b"], [4, 2, 1])])
        loads.wait("layer 0")
        wanted = before.copy()
        wanted[4], wanted[1] = source[:LAYERS], source[LAYERS:]
        numpy.testing.assert_array_equal(self.seen()[:, 0], wanted[:, 0])
        loads.end()
        numpy.testing.assert_array_equal(self.seen(), wanted)
        self.assertEqual((loads.take_failed(), self.figures.of("pages")), ({2}, {"ready": 2, "miss": 1}))
        self.assertEqual(order, [before.tolist()])  # nothing had been written yet

    def test_a_gpu_that_says_an_error_loads_nothing(self):
        def fails():
            raise RuntimeError("CUDA error")

        cache = self.cache()
        cache.wait_until_unused = fails
        loads = LayerLoads(cache, Shard(SPACE, LAYERS), 60, self.figures)
        loads.begin(self.client, [Blocks("r", [b"a"], [3])])
        loads.end()
        self.assertEqual((loads.take_failed(), self.figures.of("pages")), ({3}, {"unreachable": 1}))

    def test_blocks_in_another_order_of_bytes_are_of_another_layout(self):
        plain, turned = Tensor(self.address), Tensor(self.address, (BLOCKS, LENGTH // 8, 2, 2), (LENGTH // 2, 2, LENGTH // 4, 1))
        caches = [cache_blocks({"layer": tensor}, BLOCKS) for tensor in (plain, turned)]
        self.assertEqual([(type(each), each.lengths, each.layers[0].step) for each in caches], [(GpuBlocks, [LENGTH], LENGTH)] * 2)
        self.assertEqual(len({each.layout for each in caches}), 2)

    def test_memory_that_it_cannot_serve_is_refused(self):
        for tensors, words in (({"a": Tensor(self.address, (2, *SHAPE))}, "first dimension counts blocks"),
                               ({"a": Tensor(self.address, strides=(2 * LENGTH, LENGTH, 1))}, "have gaps"),
                               ({"a": Tensor(self.address, strides=(LENGTH, LENGTH // 2, 2))}, "have gaps"),
                               ({"a": Tensor(self.address), "b": Tensor(self.address, device=Device(1))}, "is on cuda:0 and cuda:1")):
            with self.subTest(words), self.assertRaisesRegex(farpage.InvalidError, words):
                cache_blocks(tensors, BLOCKS)


if __name__ == "__main__":
    unittest.main()
