"""The parts of vLLM's connector that move blocks, without vLLM: memory is another's only when
nothing writes to it any more, time that is gone is gone, and what did not come is said."""

import types
import unittest
from unittest import mock

import numpy
from client_case import READY, RECOMPUTE, farpage
from fake_ticket import FakeTicket
from farpage.engines import connector_loads, connector_stores
from farpage.engines.connector_loads import BlockLoads, LayerLoads
from farpage.engines.connector_gpu import cache_blocks
from farpage.engines.connector_memory import Staging
from farpage.engines.connector_plan import Blocks, Shard
from farpage.engines.connector_stores import Stores
from farpage.engines.figures import Figures

BLOCKS, LAYERS, LENGTH = 6, 3, 8  # LENGTH: bytes of a block of a layer
TIMEOUT_S = 10
OK, NOT_SERVED = farpage.Code.OK, farpage.Code.TIMEOUT
SPACE = farpage.KeySpace(model="m")


class Device(types.SimpleNamespace):
    def __init__(self, kind):
        super().__init__(type=kind)

    def __str__(self):
        return f"{self.type}:0"


class Tensor(numpy.ndarray):
    device = Device("cpu")


class FakeClient:
    """Answers with the next of `tickets`, or refuses where that is None."""

    def __init__(self, *tickets):
        self.tickets, self.asked = list(tickets), []
        self.keys, self.pages = [], []  # of each call

    def register(self, array):
        address = array.__array_interface__["data"][0]
        return types.SimpleNamespace(address=address, bytes=array.nbytes, pages=lambda starts, length: (numpy.asarray(starts) + address, length))

    def fetch(self, keys, pages, timeout_s):
        self.asked.append((len(keys), timeout_s))
        self.keys.append(numpy.asarray(keys).tolist())
        self.pages.append(pages)
        ticket = self.tickets.pop(0)
        if ticket is None:
            raise farpage.ExhaustedError("too much is under way")
        return ticket

    put = fetch


class ConnectorCase(unittest.TestCase):
    def setUp(self):
        self.figures = Figures()
        self.now_s = 0.0
        for module in (connector_loads, connector_stores):
            clock = mock.patch.object(module, "time", types.SimpleNamespace(monotonic=lambda: self.now_s))
            clock.start()
            self.addCleanup(clock.stop)

    def assert_figures(self, cache, operation, seconds):
        """Of one of two blocks, and the other was late."""
        self.assertEqual({name: self.figures.of(name)[operation] for name in ("bytes", "seconds", "stalls")},
                         {"bytes": cache.block_bytes, "seconds": seconds, "stalls": 1})

    def cache(self, client, gaps=False, shorter=0):
        """Block n of layer l is full of 10 l + n; of the last layer it has fewer bytes. With gaps
        the bytes of two heads lie apart."""
        tensors = {}
        for layer in range(LAYERS):
            length = LENGTH - shorter * (layer == LAYERS - 1)
            whole = numpy.repeat(numpy.arange(BLOCKS, dtype=numpy.uint8) + 10 * layer, length).reshape(BLOCKS, 2, length // 2)
            wide = numpy.repeat(whole, 2, axis=1)
            tensors[f"layer {layer}"] = (wide[:, ::2] if gaps else whole).view(Tensor)
        cache = cache_blocks(tensors, BLOCKS)
        cache.register(client)
        return cache

    def staging(self, cache, client, blocks):
        staging = Staging(blocks * cache.block_bytes, cache.block_bytes)
        staging.register(client)
        return staging

    def block(self, cache, number):
        into = numpy.zeros((1, cache.block_bytes), numpy.uint8)
        cache.read([number], into, [0])
        return into[0].tolist()


def blocks(*numbers):
    return Blocks("r", [b"%d" % number for number in numbers], list(numbers))


class CacheBlocksTest(unittest.TestCase):
    def of(self, **arrays):
        client = FakeClient()
        cache = cache_blocks({name: array.view(Tensor) for name, array in arrays.items()}, BLOCKS)
        cache.register(client)
        return cache, [(region.address, region.bytes) for region in cache._regions]

    def test_memory_of_the_layers_is_registered_and_nothing_between(self):
        memory = numpy.zeros(100 * LENGTH, numpy.uint8)
        address = memory.__array_interface__["data"][0]
        beside = memory[:BLOCKS * 2 * LENGTH].reshape(BLOCKS, 2, LENGTH)  # of two layers
        apart = memory[50 * LENGTH:(50 + BLOCKS) * LENGTH].reshape(BLOCKS, LENGTH)
        cache, regions = self.of(apart=apart, one=beside[:, 0], two=beside[:, 1])
        self.assertEqual(regions, [(address, BLOCKS * 2 * LENGTH), (address + 50 * LENGTH, BLOCKS * LENGTH)])
        for name, first, step in (("one", 0, 2), ("two", 1, 2), ("apart", 50, 1)):
            places, length = cache.pages(cache.place[name], [4, 1])
            self.assertEqual((places.tolist(), length), ([address + (first + step * number) * LENGTH for number in (4, 1)], LENGTH), name)

    def test_blocks_in_another_order_of_bytes_are_whole_and_of_another_layout(self):
        plain = numpy.arange(BLOCKS * 4 * LENGTH, dtype=numpy.uint8).reshape(BLOCKS, 4, LENGTH)
        for array in (plain, plain.transpose(0, 2, 1)):
            self.assertEqual(self.of(layer=array)[0].layers[0].memory.tolist(), plain.reshape(BLOCKS, -1).tolist())
        layouts = {cache.layout for cache, _ in (self.of(layer=plain), self.of(layer=plain.transpose(0, 2, 1)), self.of(layer=plain.view(numpy.int8)),
                                                 self.of(layer=plain.reshape(BLOCKS, LENGTH, 4)), self.of(one=plain, two=plain.copy()))}
        self.assertEqual(len(layouts), 5)

    def test_layers_that_share_memory_are_one(self):
        plain = numpy.zeros((BLOCKS, LENGTH), numpy.uint8)
        cache, _ = self.of(one=plain, two=plain)
        self.assertEqual((cache.block_bytes, cache.place), (LENGTH, {"one": 0, "two": 0}))

    def test_memory_that_it_cannot_serve_is_refused(self):
        plain = numpy.zeros((2, BLOCKS, LENGTH), numpy.uint8)
        with self.assertRaisesRegex(farpage.InvalidError, "first dimension counts blocks"):
            self.of(layer=plain)
        for devices, words in ((("xpu",), "is on xpu:0"), (("cpu", "cuda"), "is on cpu:0 and cuda:0")):
            tensors = {device: plain[0].view(type("Other", (Tensor,), {"device": Device(device)})) for device in devices}
            with self.assertRaisesRegex(farpage.InvalidError, words):
                cache_blocks(tensors, BLOCKS)


class BlockLoadsTest(ConnectorCase):
    def loads(self, client, room):
        cache = self.cache(client)
        loads = BlockLoads(cache.block_bytes, Shard(SPACE, 1), TIMEOUT_S, self.figures)
        loads.landing = cache.landing(client, room * cache.block_bytes)
        return loads, cache, loads.landing.room

    def test_memory_is_used_again_once_nothing_writes_to_it(self):
        ticket = FakeTicket([RECOMPUTE])
        client = FakeClient(ticket)
        loads, _, staging = self.loads(client, 1)
        loads.begin(client, blocks(1))
        loads.poll(client)
        ticket.end(released=False)  # its deadline has come, and a transfer has not ended
        self.assertEqual((loads.poll(client), loads.take_failed(), staging.free), ({"r"}, {1}, 0))
        loads.begin(client, blocks(2))
        self.assertEqual((loads.poll(client), len(client.asked)), (set(), 1))
        client.tickets.append(FakeTicket([READY]))
        ticket.end()
        loads.poll(client)
        self.assertEqual(len(client.asked), 2)
        self.assertEqual(self.figures.of("pages"), {"miss": 1})

    def test_figures_of_a_load(self):
        ticket = FakeTicket([READY, RECOMPUTE], reason=farpage.Reason.UNREACHABLE, took_s=[2, 3])
        client = FakeClient(ticket)
        loads, cache, _ = self.loads(client, 2)
        loads.begin(client, blocks(1, 2))
        ticket.end()
        loads.poll(client)
        self.assert_figures(cache, "load", seconds=3)

    def test_a_load_that_ends_while_it_is_looked_at_ends_at_the_next_look(self):
        ticket = FakeTicket([READY])
        client = FakeClient(ticket)
        loads, _, staging = self.loads(client, 1)
        loads.begin(client, blocks(1))
        ticket.released = True  # and it was not yet done when that was asked
        self.assertEqual((loads.poll(client), staging.free), (set(), 0))
        ticket.end()
        self.assertEqual((loads.poll(client), staging.free), ({"r"}, 1))

    def test_blocks_that_wait_for_room_come_in_their_order(self):
        first, second = FakeTicket([RECOMPUTE]), FakeTicket([READY])
        client = FakeClient(first, second)
        loads, cache, staging = self.loads(client, 1)
        staging.rows[:] = 99
        before = self.block(cache, 1)
        loads.begin(client, blocks(1, 2))
        first.end()
        loads.poll(client)
        second.end()
        self.assertEqual((loads.poll(client), loads.take_failed()), ({"r"}, {1}))
        self.assertEqual((self.block(cache, 1), self.block(cache, 2)), (before, [99] * cache.block_bytes))
        keys = Shard(SPACE, 1).keys([b"1", b"2"])[:, 0].tolist()
        self.assertEqual(client.keys, [keys[:1], keys[1:]])

    def test_blocks_that_find_no_room_in_time_have_failed(self):
        ticket = FakeTicket([READY])
        client = FakeClient(ticket)
        loads, _, _ = self.loads(client, 1)
        loads.begin(client, blocks(1, 2, 3))
        self.now_s = TIMEOUT_S
        self.assertEqual((loads.poll(client), loads.take_failed()), (set(), {2, 3}))
        ticket.end()
        self.assertEqual((loads.poll(client), loads.take_failed(), len(client.asked)), ({"r"}, set(), 1))
        self.assertEqual(self.figures.of("pages"), {"overdue": 2, "ready": 1})

    def test_without_a_node_blocks_fail_at_once(self):
        loads, _, _ = self.loads(FakeClient(), 1)
        loads.begin(None, blocks(1, 2))
        self.assertEqual((loads.poll(None), loads.take_failed()), ({"r"}, {1, 2}))
        self.assertEqual(self.figures.of("pages"), {"unreachable": 2})

    def test_who_waited_for_room_has_what_is_left_of_its_time(self):
        client = FakeClient(FakeTicket([READY]), FakeTicket([READY]))
        first = client.tickets[0]
        loads, _, _ = self.loads(client, 1)
        loads.begin(client, blocks(1, 2))
        loads.poll(client)
        self.now_s = 4.0
        first.end()
        loads.poll(client)
        self.assertEqual(client.asked, [(1, TIMEOUT_S), (1, TIMEOUT_S - 4)])

    def test_a_load_that_is_refused_fails_and_keeps_no_memory(self):
        client = FakeClient(None)
        loads, _, staging = self.loads(client, 2)
        loads.begin(client, blocks(1, 2))
        self.assertEqual((loads.poll(client), loads.take_failed(), staging.free), ({"r"}, {1, 2}, 2))
        self.assertEqual(self.figures.of("pages"), {"refused": 2})

    def test_only_what_came_is_written(self):
        for verdicts, came, failed in (([READY, RECOMPUTE], 1, 2), ([RECOMPUTE, READY], 2, 1)):
            ticket = FakeTicket(verdicts)
            client = FakeClient(ticket)
            loads, cache, staging = self.loads(client, 2)
            staging.rows[:] = [[91], [92]]
            before = self.block(cache, failed)
            loads.begin(client, blocks(1, 2))
            ticket.end()
            self.assertEqual((loads.poll(client), loads.take_failed()), ({"r"}, {failed}))
            self.assertEqual((self.block(cache, came), self.block(cache, failed)), ([90 + came] * cache.block_bytes, before))

    def test_blocks_that_cannot_be_written_have_failed_and_memory_is_used_again(self):
        ticket = FakeTicket([READY, RECOMPUTE])
        client = FakeClient(ticket)
        loads, cache, staging = self.loads(client, 2)
        loads.begin(client, blocks(1, 2))
        ticket.end()
        with mock.patch.object(cache, "write", side_effect=RuntimeError("CUDA out of memory")), self.assertLogs("farpage", "ERROR"):
            self.assertEqual((loads.poll(client), loads.take_failed(), staging.free), ({"r"}, {1, 2}, 2))
        self.assertEqual(self.figures.of("pages"), {"refused": 1, "miss": 1})


class LayerLoadsTest(ConnectorCase):
    def loads(self, client, gaps=False):
        cache = self.cache(client, gaps)
        return LayerLoads(cache, Shard(SPACE, LAYERS), TIMEOUT_S, self.figures), cache

    def test_a_layer_is_the_models_once_nothing_writes_to_it(self):
        tickets = [FakeTicket([RECOMPUTE]) for _ in range(LAYERS)]
        client = FakeClient(*tickets)
        loads, _ = self.loads(client)
        loads.begin(client, [blocks(1)])
        loads.wait("layer 1")
        self.assertEqual([ticket.released for ticket in tickets], [False, True, False])
        loads.end()
        self.assertEqual([ticket.released for ticket in tickets], [True] * 3)
        self.assertEqual(loads.take_failed(), {1})

    def test_no_block_came_of_a_step_whose_loads_were_not_all_begun(self):
        for client in (None, FakeClient(None), FakeClient(FakeTicket([READY] * 2), None)):
            self.figures = Figures()
            loads, _ = self.loads(client or FakeClient())
            loads.begin(client, [blocks(1, 2)])
            loads.wait("layer 0")
            loads.end()
            self.assertEqual(loads.take_failed(), {1, 2})
            self.assertEqual(self.figures.of("pages"), {"unreachable": 2})

    def test_nothing_begins_before_vllms_stream_has_ended(self):
        client = FakeClient()
        loads, cache = self.loads(client)
        with mock.patch.object(cache, "wait_until_unused", side_effect=RuntimeError("CUDA error")):
            loads.begin(client, [blocks(1, 2)])
        loads.end()
        self.assertEqual((client.asked, loads.take_failed(), self.figures.of("pages")), ([], {1, 2}, {"unreachable": 2}))

    def test_pages_of_a_layer_go_straight_to_its_blocks(self):
        client = FakeClient(*(FakeTicket([READY] * 2) for _ in range(LAYERS)))
        loads, cache = self.loads(client)
        loads.begin(client, [blocks(4, 1)])
        keys = Shard(SPACE, LAYERS).keys([b"4", b"1"])
        self.assertEqual(client.keys, [keys[:, layer].tolist() for layer in range(LAYERS)])
        wanted = [cache.pages(layer, [4, 1]) for layer in range(LAYERS)]
        self.assertEqual([(places.tolist(), length) for places, length in client.pages], [(places.tolist(), length) for places, length in wanted])

    def test_figures_of_a_step_are_those_of_its_layers(self):
        tickets = [FakeTicket([READY, verdict], reason=farpage.Reason.STALLED, took_s=took_s) for verdict, took_s in ((READY, 1), (RECOMPUTE, 3), (READY, 2))]
        client = FakeClient(*tickets)
        loads, cache = self.loads(client)
        loads.begin(client, [blocks(1, 2)])
        loads.end()
        self.assert_figures(cache, "load", seconds=3)

    def test_a_step_has_nothing_of_the_one_before(self):
        tickets = [FakeTicket([RECOMPUTE, READY]) for _ in range(LAYERS)]
        client = FakeClient(*tickets)
        loads, _ = self.loads(client)
        loads.begin(client, [blocks(1, 2)])
        loads.wait("layer 1")
        loads.wait("layer 1")
        loads.end()
        loads.end()
        self.assertEqual(loads.take_failed(), {1})
        loads.begin(client, [])
        loads.wait("layer 0")
        loads.wait("not of the cache")
        loads.end()
        self.assertEqual((loads.take_failed(), [ticket.results for ticket in tickets]), (set(), [1] * LAYERS))
        self.assertEqual((len(client.asked), self.figures.of("pages")), (LAYERS, {"miss": 1, "ready": 1}))

    def test_a_block_has_the_reason_of_its_first_layer_that_did_not_come(self):
        client = FakeClient(FakeTicket([READY]), FakeTicket([RECOMPUTE], reason=farpage.Reason.STALE), FakeTicket([RECOMPUTE]))
        loads, _ = self.loads(client)
        loads.begin(client, [blocks(1)])
        loads.end()
        self.assertEqual(self.figures.of("pages"), {"stale": 1})

    def test_a_block_came_if_all_its_layers_did(self):
        client = FakeClient(FakeTicket([READY, READY]), FakeTicket([RECOMPUTE, READY]), FakeTicket([READY, READY]))
        loads, _ = self.loads(client)
        loads.begin(client, [blocks(3), Blocks("s", [b"4"], [4])])
        loads.end()
        self.assertEqual(loads.take_failed(), {3})
        self.assertEqual(self.figures.of("pages"), {"ready": 1, "miss": 1})

    def test_all_layers_have_one_deadline(self):
        client = FakeClient(*(FakeTicket([READY]) for _ in range(LAYERS)))
        fetch = client.fetch

        def slow_fetch(keys, pages, timeout_s):
            self.now_s += 6
            return fetch(keys, pages, timeout_s)

        client.fetch = slow_fetch
        loads, _ = self.loads(client)
        loads.begin(client, [blocks(1)])
        self.assertEqual([timeout_s for _, timeout_s in client.asked], [10, 4, 0])

    def test_where_blocks_have_gaps_only_what_came_is_written(self):
        client = FakeClient(FakeTicket([RECOMPUTE, READY]), FakeTicket([READY, RECOMPUTE]), FakeTicket([RECOMPUTE] * 2))

        def fetch(keys, pages, timeout_s):
            pages[:] = [[91], [92]]
            return client.tickets.pop(0)

        client.fetch = fetch
        loads, cache = self.loads(client, gaps=True)
        before = [self.block(cache, number) for number in range(BLOCKS)]
        loads.begin(client, [blocks(1, 2)])
        loads.end()
        before[1][LENGTH:2 * LENGTH], before[2][:LENGTH] = [91] * LENGTH, [92] * LENGTH
        self.assertEqual([self.block(cache, number) for number in range(BLOCKS)], before)


class StoresTest(ConnectorCase):
    def stores(self, client, parts=1, room=2):
        cache = self.cache(client)
        staging = self.staging(cache, client, room)
        return Stores(cache, staging, Shard(SPACE, parts), TIMEOUT_S, self.figures), cache, staging

    def test_blocks_are_copied_before_vllm_uses_them_again(self):
        client = FakeClient(FakeTicket(codes=[OK, OK]))
        stores, cache, staging = self.stores(client)
        wanted = [self.block(cache, number) for number in (4, 1)]
        stores.submit(client, blocks(4, 1))
        cache.write([4], numpy.zeros((1, cache.block_bytes), numpy.uint8), [0])
        self.assertEqual(staging.rows.tolist(), wanted)

    def test_of_more_blocks_than_find_room_the_first_are_stored(self):
        client = FakeClient(FakeTicket(codes=[OK, OK]))
        stores, cache, staging = self.stores(client)
        stores.submit(client, blocks(4, 1, 3))
        self.assertEqual(staging.rows.tolist(), [self.block(cache, number) for number in (4, 1)])
        self.assertEqual((client.keys, self.figures.of("pages")), ([Shard(SPACE, 1).keys([b"4", b"1"])[:, 0].tolist()], {"dropped": 1}))

    def test_without_a_node_blocks_are_dropped_and_take_no_memory(self):
        stores, _, staging = self.stores(FakeClient())
        stores.submit(None, blocks(1, 2, 3))
        self.assertEqual((staging.free, self.figures.of("pages")), (2, {"dropped": 3}))

    def test_a_block_is_stored_if_all_its_parts_are(self):
        tickets = [FakeTicket(codes=[OK, OK, NOT_SERVED, OK]), FakeTicket(codes=[OK, OK])]
        client = FakeClient(*tickets)
        cache = self.cache(client, shorter=2)  # two lengths, and so two puts
        staging = self.staging(cache, client, 2)
        stores = Stores(cache, staging, Shard(SPACE, LAYERS), TIMEOUT_S, self.figures)
        stores.submit(client, blocks(1, 2))
        keys = Shard(SPACE, LAYERS).keys([b"1", b"2"])
        self.assertEqual(client.keys, [keys[:, :2].reshape(-1, 16).tolist(), keys[:, 2].tolist()])
        tickets[0].end()
        stores.poll()
        # The other put reads it still.
        self.assertEqual((staging.free, self.figures.of("pages")), (0, {}))
        tickets[1].end()
        stores.poll()
        self.assertEqual((staging.free, self.figures.of("pages")), (2, {"stored": 1, "not stored": 1}))

    def test_figures_of_a_store(self):
        ticket = FakeTicket(codes=[OK, farpage.Code.TIMEOUT])
        client = FakeClient(ticket)
        stores, cache, _ = self.stores(client)
        stores.submit(client, blocks(1, 2))
        self.now_s = 3
        ticket.end()
        stores.poll()
        self.assert_figures(cache, "store", seconds=3)

    def test_blocks_that_cannot_be_read_are_dropped_and_memory_is_used_again(self):
        client = FakeClient()
        stores, cache, staging = self.stores(client)
        with mock.patch.object(cache, "read", side_effect=RuntimeError("CUDA out of memory")), self.assertLogs("farpage", "ERROR"):
            stores.submit(client, blocks(1, 2, 3))
        self.assertEqual((staging.free, client.asked, self.figures.of("pages")), (2, [], {"dropped": 3}))

    def test_pages_of_layers_are_where_the_layers_are(self):
        client = FakeClient(FakeTicket(codes=[OK] * 4), FakeTicket(codes=[OK] * 2))
        put = client.put
        places = []

        def note(keys, pages, timeout_s):
            places.append((pages[0].tolist(), pages[1]))
            return put(keys, pages, timeout_s)

        client.put = note
        cache = self.cache(client, shorter=2)
        staging = self.staging(cache, client, 2)
        Stores(cache, staging, Shard(SPACE, LAYERS), TIMEOUT_S, self.figures).submit(client, blocks(3, 5))
        first, step = staging.rows.__array_interface__["data"][0], cache.block_bytes
        self.assertEqual(places, [([first, first + LENGTH, first + step, first + step + LENGTH], LENGTH),
                                  ([first + 2 * LENGTH, first + step + 2 * LENGTH], LENGTH - 2)])

    def test_memory_is_used_again_once_nothing_reads_it(self):
        ticket = FakeTicket(codes=[OK, NOT_SERVED])
        client = FakeClient(ticket)
        stores, _, staging = self.stores(client)
        stores.submit(client, blocks(1, 2))
        ticket.end(released=False)
        stores.poll()
        self.assertEqual(staging.free, 0)
        stores.submit(client, blocks(3))
        ticket.end()
        stores.poll()
        self.assertEqual((staging.free, self.figures.of("pages")), (2, {"dropped": 1, "stored": 1, "not stored": 1}))

    def test_a_store_that_is_refused_in_part_keeps_its_memory_until_the_rest_has_ended(self):
        begun = FakeTicket(codes=[OK] * (LAYERS - 1))
        client = FakeClient(begun, None)
        cache = self.cache(client, shorter=2)  # two lengths, and so two puts
        staging = self.staging(cache, client, 2)
        stores = Stores(cache, staging, Shard(SPACE, LAYERS), TIMEOUT_S, self.figures)
        stores.submit(client, blocks(1))
        stores.poll()
        self.assertEqual(staging.free, 1)
        begun.end()
        stores.poll()
        self.assertEqual((staging.free, self.figures.of("pages")), (2, {"dropped": 1}))


if __name__ == "__main__":
    unittest.main()
