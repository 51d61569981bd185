"""The connector's side in a worker of vLLM's, without vLLM: what of a step it begins and ends, what
it tells vLLM of it, and what it tells the nodes."""

import unittest
from unittest import mock

from client_case import READY, RECOMPUTE, farpage
from engine_connector_test import LAYERS, LENGTH, OK, SPACE, ConnectorCase, FakeClient, blocks
from fake_ticket import FakeTicket
from farpage.engines import connector_worker
from farpage.engines.connector_plan import Plan, Settings
from farpage.engines.connector_worker import WorkerSide
from farpage.engines.figures import Figures

BLOCK_BYTES = LAYERS * LENGTH
FORMS = ("block", "layer")


class Client(FakeClient):
    def __init__(self, *tickets, page_bytes=BLOCK_BYTES, refuses=None):
        super().__init__(*tickets)
        self.page_bytes, self.refuses, self.announced, self.lengths = page_bytes, refuses, [], []

    def register(self, array):
        self.lengths.append(array.nbytes)
        return super().register(array)

    def announce(self, keys, *, wanted_in_s):
        self.announced.append((keys.tobytes(), wanted_in_s))
        if self.refuses is not None:
            raise self.refuses("no")


class WorkerSideTest(ConnectorCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(connector_worker, "Connection")
        self.connection = patch.start()
        self.addCleanup(patch.stop)

    def worker(self, client, pages="block", loads=True, stores=True, **settings):
        """One whose client is there; None: not yet."""
        settings = Settings.of({"pages": pages, "load_bytes": 4 * BLOCK_BYTES, "store_bytes": 2 * BLOCK_BYTES, "timeout_ms": 1000, **settings})
        worker = WorkerSide(settings, self.cache(FakeClient(), shorter=2 * (pages == "layer")), SPACE, Figures(), loads=loads, stores=stores)
        worker.connection.client = client
        if client is not None:
            worker._prepare(client)
        return worker

    # ---- The client

    def test_pages_that_the_nodes_do_not_hold_are_refused_with_their_length(self):
        for pages, length in (("block", BLOCK_BYTES), ("layer", LENGTH)):
            self.worker(Client(page_bytes=length), pages)
            with self.assertRaisesRegex(farpage.InvalidError, f"--page-bytes {length}"):
                self.worker(Client(page_bytes=length - 1), pages)

    def test_memory_for_less_than_a_block_is_refused(self):
        for pages, name, roles in (("block", "load_bytes", {"stores": False}), ("block", "store_bytes", {"loads": False}), ("layer", "store_bytes", {})):
            length = self.worker(Client(), pages, **roles)._cache.block_bytes
            self.worker(Client(), pages, **roles, **{name: length})
            with self.assertRaisesRegex(farpage.InvalidError, f"{name} is {length - 1}, and a page has {length} bytes: give at least so many"):
                self.worker(Client(), pages, **roles, **{name: length - 1})
        self.worker(Client(), loads=False, load_bytes=1)  # which it does not use

    def test_memory_for_what_it_does_is_registered(self):
        whole = 6 * LENGTH  # of a layer
        for pages, roles, lengths in (("block", {}, [4 * BLOCK_BYTES, 2 * BLOCK_BYTES]), ("block", {"loads": False}, [2 * BLOCK_BYTES]),
                                      ("block", {"stores": False}, [4 * BLOCK_BYTES]), ("layer", {"stores": False}, [whole, whole, whole - 12])):
            client = Client()
            self.worker(client, pages, **roles)
            self.assertEqual(sorted(client.lengths, reverse=True), lengths, (pages, roles))

    def test_memory_for_pages_ahead_is_of_their_length_unless_it_is_said(self):
        for pages, length in (("block", BLOCK_BYTES), ("layer", LENGTH)):
            self.worker(None, pages, ahead={"pages": 8})
            self.assertEqual(self.connection.call_args.args[0], {"ahead": {"pages": 8, "page_bytes": length}})
            self.worker(None, pages, ahead={"pages": 8, "page_bytes": 99})
            self.assertEqual(self.connection.call_args.args[0]["ahead"]["page_bytes"], 99)
        self.worker(None)
        self.assertEqual(self.connection.call_args.args[0], {})

    def test_blocks_that_are_fetched_ahead_come_by_way_of_the_hosts_memory(self):
        for settings, way in (({}, "landing"), ({"ahead": {"pages": 8}}, "staged")):
            client = Client()
            worker = self.worker(None, **settings)
            with mock.patch.object(worker._cache, "landing") as landing, mock.patch.object(worker._cache, "staged") as staged:
                worker._prepare(client)
            self.assertIs(worker._blocks.landing, {"landing": landing, "staged": staged}[way].return_value)
            self.assertEqual(landing.call_args_list + staged.call_args_list, [mock.call(client, 4 * BLOCK_BYTES)])

    # ---- Loads

    def test_a_load_of_blocks_ends_beside_the_steps(self):
        ticket = FakeTicket([READY, RECOMPUTE])
        client = Client(ticket)
        worker = self.worker(client)
        worker.start(Plan(loads=[blocks(1, 2)]))
        worker.save(Plan())
        self.assertEqual((worker.ended(), worker.take_failed()), ((set(), set()), set()))
        self.assertEqual(client.asked, [(2, 1.0)])
        ticket.end()
        self.assertEqual((worker.ended(), worker.take_failed()), ((set(), {"r"}), {2}))
        self.assertEqual((worker.ended(), worker.take_failed()), ((set(), set()), set()))

    def test_a_load_of_layers_ends_within_the_step(self):
        tickets = [FakeTicket([READY, RECOMPUTE]) for _ in range(LAYERS)]
        worker = self.worker(Client(*tickets), "layer", stores=False)
        worker.start(Plan(loads=[blocks(1, 2)]))
        worker.wait_layer("layer 1")
        self.assertEqual([ticket.released for ticket in tickets], [False, True, False])
        worker.save(Plan())
        # VLLM waits for none of its requests.
        self.assertEqual((worker.ended(), worker.take_failed()), ((set(), set()), {2}))
        self.assertEqual([ticket.released for ticket in tickets], [True] * 3)

    def test_layers_that_failed_are_told_in_their_step_with_a_draft_model_too(self):
        """VLLM then saves after it has asked what failed."""
        worker = self.worker(Client(*[FakeTicket([READY, RECOMPUTE]) for _ in range(LAYERS)]), "layer")
        for loads, failed in (([blocks(1, 2)], {2}), ([], set())):
            plan = Plan(loads=loads)
            worker.start(plan)
            self.assertEqual((worker.ended(), worker.take_failed()), ((set(), set()), failed))
            worker.save(plan)

    def test_without_a_node_loads_fail_at_once(self):
        for pages in FORMS:
            worker = self.worker(None, pages)
            worker.start(Plan(loads=[blocks(1, 2)], stores=[], announced=[b"1"]))
            worker.wait_layer("layer 0")
            worker.save(Plan(stores=[blocks(3)]))
            self.assertEqual((worker.ended(), worker.take_failed()), ((set(), {"r"} if pages == "block" else set()), {1, 2}))
            # So that no load counts as one of all workers that one of them did not have.
            self.assertEqual([load.blocks for load in worker.take_measured().values()], [0])

    def test_no_exception_reaches_vllm(self):
        for pages in FORMS:
            worker = self.worker(Client(), pages)
            worker.shard = None
            for part, call in ((worker._layers or worker._blocks, "begin"), (worker._stores, "submit"), (worker._stores, "poll")):
                setattr(part, call, mock.Mock(side_effect=RuntimeError("anything")))
            with self.assertLogs("farpage", "ERROR") as said:
                worker.start(Plan(loads=[blocks(1, 2)], announced=[b"1"]))
                worker.save(Plan(stores=[blocks(3)], ending={"e"}))
                self.assertEqual((worker.ended(), worker.take_failed()), (({"e"}, {"r"} if pages == "block" else set()), {1, 2}))
            self.assertEqual(len(said.output), 4, said.output)

    def test_a_client_that_throws_is_a_miss(self):
        for pages in FORMS:
            client = Client()
            worker = self.worker(client, pages)
            with mock.patch.object(client, "fetch", side_effect=RuntimeError("anything")), mock.patch.object(client, "put", side_effect=RuntimeError("anything")), \
                    self.assertLogs("farpage", "ERROR") as said:
                for _ in range(2):
                    worker.start(Plan(loads=[blocks(1, 2)]))
                    worker.wait_layer("layer 1")
                    worker.save(Plan(stores=[blocks(3)]))
                    self.assertEqual((worker.ended(), worker.take_failed()), ((set(), {"r"} if pages == "block" else set()), {1, 2}))
            self.assertEqual(len(said.output), 2, said.output)
            self.assertEqual((worker.figures.of("pages")["stored"], worker._staging.free), (0, 2))
            if pages == "block":
                self.assertEqual(worker._blocks.landing.room.free, 4)

    def test_a_ticket_that_throws_is_a_miss(self):
        for pages in FORMS:
            tickets = [FakeTicket(error=RuntimeError("anything")) for _ in range(LAYERS)]
            worker = self.worker(Client(*tickets), pages, stores=False)
            worker.start(Plan(loads=[blocks(1, 2)]))
            with self.assertLogs("farpage", "ERROR") as said:
                if pages == "block":
                    tickets[0].end()
                worker.wait_layer("layer 1")
                worker.save(Plan())
                self.assertEqual((worker.ended(), worker.take_failed()), ((set(), {"r"} if pages == "block" else set()), {1, 2}))
            self.assertEqual(len(said.output), 1, said.output)
            self.assertEqual([ticket.released for ticket in tickets], [True] * 3 if pages == "layer" else [True, False, False])

    # ---- Stores

    def test_a_store_whose_ticket_throws_failed(self):
        tickets = [FakeTicket(error=RuntimeError("anything")), FakeTicket(codes=[OK])]
        worker = self.worker(Client(*tickets))
        for number in (1, 2):
            worker.save(Plan(stores=[blocks(number)]))
        for ticket in tickets:
            ticket.end()
        with self.assertLogs("farpage", "ERROR"):
            worker.ended()
        self.assertEqual((worker.figures.of("pages")["not stored"], worker.figures.of("pages")["stored"]), (1, 1))
        self.assertEqual(worker._staging.free, 2)

    def test_a_finished_request_ends_once_its_blocks_were_read(self):
        ticket = FakeTicket(codes=[OK, OK])
        client = Client(ticket)
        worker = self.worker(client, store_timeout_ms=7000)
        plan = Plan(stores=[blocks(1, 2)], ending={"r"})
        worker.start(plan)
        worker.save(plan)
        self.assertEqual([worker.ended()[0] for _ in range(2)], [{"r"}, set()])
        ticket.end()
        worker.ended()
        self.assertEqual((worker.figures.of("pages")["stored"], client.asked), (2, [(2, 7.0)]))

    def test_it_closes_its_client(self):
        self.worker(Client()).close()
        self.connection.return_value.close.assert_called_once_with()

    def test_who_does_not_store_still_ends_its_requests(self):
        worker = self.worker(Client(), stores=False)
        worker.save(Plan(stores=[blocks(1)], ending={"r"}))
        self.assertEqual(worker.ended(), ({"r"}, set()))

    # ---- Announcements

    def test_all_parts_of_blocks_are_announced(self):
        for pages in FORMS:
            client = Client()
            worker = self.worker(client, pages)
            for names in ([b"1", b"2"], []):
                worker.start(Plan(announced=names))
            self.assertEqual(client.announced, [(worker.shard.keys([b"1", b"2"]).tobytes(), None)])
            self.assertEqual(len(client.announced[0][0]), 16 * 2 * (LAYERS if pages == "layer" else 1))

    def test_where_nothing_is_fetched_ahead_nothing_is_announced_again(self):
        for refusal, count in ((farpage.InvalidError, 1), (farpage.ExhaustedError, 2)):
            client = Client(refuses=refusal)
            worker = self.worker(client)
            with self.assertNoLogs("farpage", "ERROR"):
                for _ in range(2):
                    worker.start(Plan(announced=[b"1"]))
            self.assertEqual(len(client.announced), count)


if __name__ == "__main__":
    unittest.main()
