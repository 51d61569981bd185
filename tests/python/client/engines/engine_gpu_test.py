"""vLLM's connector where the KV cache lies in a GPU's memory: pages are fetched straight into it.
The fake driver stands in for the GPU, and objects for vLLM's tensors and streams."""

import math
import sys
import types
import unittest
from unittest import mock

import numpy
from client_case import READY, RECOMPUTE, ClientCase, farpage
from engine_connector_test import TIMEOUT_S, ConnectorCase, FakeClient, blocks
from fake_gpu import FakeGpu
from fake_ticket import FakeTicket
from farpage.engines import connector_memory
from farpage.engines.connector_gpu import GpuBlocks, StraightBlocks, cache_blocks
from farpage.engines.connector_loads import BlockLoads, LayerLoads
from farpage.engines.connector_memory import StagedBlocks
from farpage.engines.connector_plan import Blocks, Shard
from farpage.engines.figures import Figures

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


def side_by_side(address):
    """Of two layers: block after block, each with its part of both."""
    step = (LAYERS * LENGTH // 2, LENGTH // 4, 1)
    return {f"layer {layer}": Tensor(address + layer * LENGTH, strides=step) for layer in range(LAYERS)}


def apart(address):
    """Of two layers: all blocks of the one, and then of the other."""
    return {f"layer {layer}": Tensor(address + layer * BLOCKS * LENGTH) for layer in range(LAYERS)}


class Stream:
    """vLLM's: what it was given has ended once the test says so."""

    def __init__(self):
        self.given, self.ended, self.error = 0, 0, None

    def record_event(self):
        self.given += 1
        return types.SimpleNamespace(query=lambda mark=self.given: self.seen(mark))

    def seen(self, mark):
        if self.error is not None:
            raise self.error
        return mark <= self.ended


def torch_with(stream):
    return mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=types.SimpleNamespace(current_stream=lambda device: stream)))


class EngineGpuTest(ClientCase):
    @classmethod
    def setUpClass(cls):
        cls.gpu = FakeGpu()
        super().setUpClass()

    def setUp(self):
        self.address = self.gpu.allocate(LAYERS * BLOCKS * LENGTH)
        self.addCleanup(self.gpu.free, self.address)
        self.figures = Figures()

    def cache(self):
        cache = cache_blocks(side_by_side(self.address), BLOCKS)
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

    def test_whole_blocks_come_straight_into_their_pieces(self):
        source = numpy.random.default_rng(7).integers(0, 256, (2, LAYERS * LENGTH), numpy.uint8)
        shard, stream = Shard(SPACE, 1), Stream()
        self.put(list(map(bytes, shard.keys([b"a", b"b"])[:, 0])), source)
        for tensors in (side_by_side, apart):
            self.gpu.write(self.address, numpy.full(LAYERS * BLOCKS * LENGTH, 7, numpy.uint8))
            cache, loads = cache_blocks(tensors(self.address), BLOCKS), BlockLoads(LAYERS * LENGTH, shard, 60, Figures())
            with self.subTest(tensors.__name__), torch_with(stream), mock.patch.object(connector_memory, "Staging", side_effect=AssertionError):
                loads.landing = cache.landing(self.client, 2 * LAYERS * LENGTH)
                self.addCleanup(loads.landing._region.close)
                loads.begin(self.client, Blocks("r", [b"a", b"none", b"b"], [4, 2, 1]))
                self.assertEqual(loads.poll(self.client), set())
                self.assertTrue((self.seen() == 7).all())
                stream.ended = stream.given
                while not (ended := loads.poll(self.client)):
                    pass
                wanted = numpy.full((BLOCKS, LAYERS, LENGTH), 7, numpy.uint8)
                wanted[[4, 1]] = source.reshape(2, LAYERS, LENGTH)
                seen = self.seen() if tensors is side_by_side else self.seen().reshape(LAYERS, BLOCKS, LENGTH).swapaxes(0, 1)
                numpy.testing.assert_array_equal(seen, wanted)
                self.assertEqual((ended, loads.take_failed(), loads._figures.of("pages")), ({"r"}, {2}, {"ready": 2, "miss": 1}))
                loads.landing._region.close()

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


class Landings(FakeClient):
    """A client that registers, or raises `error`."""

    def __init__(self, *tickets, error=None):
        super().__init__(*tickets)
        self.error, self.pieces = error, []

    def register_blocks(self, pieces):
        self.pieces.append([piece.__cuda_array_interface__ for piece in pieces])
        if self.error is not None:
            raise self.error
        return types.SimpleNamespace(blocks=lambda numbers: list(numbers))


class LandingTest(unittest.TestCase):
    def test_a_piece_is_a_layer(self):
        client, address = Landings(), 1 << 20
        for tensors, places, step in ((side_by_side, [0, LENGTH], 2 * LENGTH), (apart, [0, BLOCKS * LENGTH], LENGTH)):
            landing = cache_blocks(tensors(address), BLOCKS).landing(client, 5 * LENGTH)
            self.assertEqual((type(landing), landing.room.free), (StraightBlocks, 2))
            self.assertEqual([(each["data"], each["shape"], each["strides"], each["typestr"]) for each in client.pieces.pop()],
                             [((address + place, False), (BLOCKS, LENGTH), (step, 1), "|u1") for place in places])

    def test_bytes_of_a_block_in_another_order_are_one_piece(self):
        turned, client = Tensor(1 << 20, (BLOCKS, LENGTH // 8, 2, 2), (LENGTH // 2, 2, LENGTH // 4, 1)), Landings()
        self.assertIsInstance(cache_blocks({"layer": turned}, BLOCKS).landing(client, LENGTH), StraightBlocks)
        self.assertEqual([each["shape"] for each in client.pieces[0]], [(BLOCKS, LENGTH)])

    def test_layers_of_several_lengths_or_steps_go_through_the_host(self):
        shorter = Tensor(1 << 22, (BLOCKS, 2, LENGTH // 8), (LENGTH // 2, LENGTH // 8, 1))
        for other in (shorter, Tensor(1 << 22, strides=(LENGTH, LENGTH // 4, 1))):
            client, cache = Landings(), cache_blocks({"a": Tensor(1 << 20), "b": other}, BLOCKS)
            landing = cache.landing(client, 2 * cache.block_bytes)
            self.assertEqual((type(landing), landing.room.free, client.pieces), (StagedBlocks, 2, []))

    def test_blocks_that_cannot_be_registered_go_through_the_host(self):
        client = Landings(error=farpage.UnavailableError("there is no driver"))
        with self.assertLogs("farpage", "WARNING") as said:
            landing = cache_blocks(apart(1 << 20), BLOCKS).landing(client, 4 * LENGTH)
        self.assertEqual((type(landing), landing.room.free), (StagedBlocks, 2))
        self.assertRegex(said.output[0], "through the host's memory.*there is no driver")


class StraightLoadsTest(ConnectorCase):
    """The time and the tickets are the test's."""

    def setUp(self):
        super().setUp()
        self.stream = Stream()
        torch = torch_with(self.stream)
        torch.start()
        self.addCleanup(torch.stop)

    def loads(self, client, room):
        cache = cache_blocks(apart(1 << 20), BLOCKS)
        loads = BlockLoads(cache.block_bytes, Shard(SPACE, 1), TIMEOUT_S, self.figures)
        loads.landing = cache.landing(client, room * cache.block_bytes)
        return loads

    def test_a_fetch_waits_for_what_vllms_stream_had_and_for_nothing_later(self):
        client = Landings(FakeTicket([READY] * 2), FakeTicket([READY]))
        loads = self.loads(client, 4)
        loads.begin(client, blocks(4, 1))
        loads.begin(client, Blocks("later", [b"3"], [3]))
        loads.poll(client)
        self.assertEqual(client.asked, [])
        self.stream.ended, self.now_s = 1, 4.0
        loads.poll(client)
        self.assertEqual((client.asked, client.pages), ([(2, TIMEOUT_S)], [[4, 1]]))
        self.stream.ended = 2
        loads.poll(client)
        self.assertEqual(client.pages, [[4, 1], [3]])

    def test_a_stream_that_has_ended_holds_nothing_up(self):
        client = Landings(FakeTicket([READY]))
        loads = self.loads(client, 4)
        self.stream.ended = 1
        loads.begin(client, blocks(1))
        self.assertEqual(client.pages, [[1]])

    def test_a_long_step_of_vllm_costs_a_load_none_of_its_time(self):
        ticket = FakeTicket([READY] * 2)
        client = Landings(ticket)
        loads = self.loads(client, 4)
        loads.begin(client, blocks(4, 1))
        self.now_s = 10 * TIMEOUT_S
        self.assertEqual((loads.poll(client), client.asked), (set(), []))
        self.stream.ended = 1
        self.assertEqual((loads.poll(client), client.asked), (set(), [(2, TIMEOUT_S)]))
        ticket.end()
        self.assertEqual((loads.poll(client), loads.take_failed(), self.figures.of("pages")), ({"r"}, set(), {"ready": 2}))
        self.assertLess(loads.take_measured()["r"].took_s, TIMEOUT_S)

    def test_blocks_that_find_no_room_in_time_are_overdue(self):
        first = FakeTicket([READY] * 2)
        client = Landings(first)
        loads = self.loads(client, 2)
        self.stream.ended = 1
        loads.begin(client, blocks(4, 1, 3))
        self.now_s = TIMEOUT_S
        self.assertEqual((loads.poll(client), loads.take_failed()), (set(), {3}))
        self.assertEqual((self.figures.of("pages"), self.figures.of("stalls")), ({"overdue": 1}, {"load": 1}))
        first.end()
        self.assertEqual((loads.poll(client), loads.take_failed()), ({"r"}, set()))

    def test_without_a_client_nothing_waits_for_the_stream(self):
        loads = self.loads(Landings(), 4)
        loads.begin(None, blocks(4, 1))
        self.assertEqual((loads.poll(None), loads.take_failed()), ({"r"}, {4, 1}))

    def test_a_stream_that_says_an_error_loads_nothing(self):
        client = Landings()
        loads = self.loads(client, 4)
        loads.begin(client, blocks(4, 1))
        self.stream.error = RuntimeError("CUDA error")
        with self.assertLogs("farpage", "ERROR"):
            self.assertEqual((loads.poll(client), loads.take_failed(), client.asked), ({"r"}, {4, 1}, []))
        self.assertEqual(self.figures.of("pages"), {"refused": 2})

    def test_a_stream_that_takes_no_event_loads_nothing(self):
        client = Landings()
        loads = self.loads(client, 4)

        def fails():
            raise RuntimeError("CUDA error")

        loads.landing.mark = fails
        with self.assertLogs("farpage", "ERROR"):
            loads.begin(client, blocks(4, 1))
        self.assertEqual((loads.poll(client), loads.take_failed(), client.asked, self.figures.of("pages")), ({"r"}, {4, 1}, [], {"refused": 2}))

    def test_blocks_are_vllms_again_once_nothing_writes_to_them(self):
        ticket = FakeTicket([READY, RECOMPUTE])
        client = Landings(ticket)
        loads = self.loads(client, 2)
        self.stream.ended = 1
        loads.begin(client, blocks(4, 1))
        ticket.end(released=False)  # a page is held
        self.assertEqual((loads.poll(client), loads.take_failed(), loads.landing.room.free), (set(), set(), 0))
        ticket.end()
        self.assertEqual((loads.poll(client), loads.take_failed(), loads.landing.room.free), ({"r"}, {1}, 2))
        self.assertEqual(self.figures.of("pages"), {"ready": 1, "miss": 1})

    def test_no_more_blocks_are_on_their_way_than_there_is_room_for(self):
        first, second = FakeTicket([READY] * 2), FakeTicket([READY])
        client = Landings(first, second)
        loads = self.loads(client, 2)
        self.stream.ended = 1
        loads.begin(client, blocks(4, 1, 3))
        self.assertEqual((loads.poll(client), client.pages), (set(), [[4, 1]]))
        first.end()
        self.assertEqual((loads.poll(client), client.pages), (set(), [[4, 1], [3]]))
        second.end()
        self.assertEqual((loads.poll(client), loads.take_failed()), ({"r"}, set()))


if __name__ == "__main__":
    unittest.main()
