"""FarpageStorage over SGLang's own host pools and a client that the test answers for: without
nodes, controllers and threads. Runs in an environment with SGLang (scripts/test-engines)."""

import types
import unittest
from unittest import mock

import numpy
import torch
from sglang_engine import PAGE_TOKENS, HiCacheStorageConfig, PoolHitPolicy, PoolName, PoolTransfer, PoolTransferResult, device_pool, host_pool, mamba_pool
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from truth import assert_bytes

import farpage
from farpage.engines import sglang, sglang_facts

CONFIG = HiCacheStorageConfig(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, is_mla_model=False,
                              enable_storage_metrics=False, is_page_first_layout=True, model_name="m")
NAMES = [f"{number:064x}" for number in range(6)]
PLACES = torch.arange(len(NAMES) * PAGE_TOKENS)
TIMEOUT_S, STORE_TIMEOUT_S = 2.0, 5.0


class Client:
    """`absent`: keys that it lacks, for that `reason`. `calls`: (what, how many keys, seconds that
    it was given); the one numbered `fails_at` fails. Each takes `takes_s` of the test's clock."""

    page_bytes = 1 << 20
    LOADED = 77.0  # what it loads into tensors

    def __init__(self):
        self.absent, self.calls, self.regions, self.released, self.reason = set(), [], [], [], farpage.Reason.MISS
        self.clock_s, self.takes_s, self.fails_at = 100.0, 0.0, None

    def register(self, tensor):
        self.regions.append(self.region(tensor.data_ptr(), tensor.nbytes))
        return self.regions[-1]

    def region(self, address, length):
        return types.SimpleNamespace(address=address, bytes=length, pages=lambda offsets, size: (offsets, size))

    def exists(self, keys, *, timeout_s):
        return self._ticket("exists", keys, timeout_s, numpy.zeros(len(keys), farpage.ticket.VERDICT))

    def fetch(self, keys, memory, *, timeout_s):
        for key, each in zip(keys, memory) if isinstance(memory, list) else ():
            if key.tobytes() not in self.absent:
                each.fill_(self.LOADED)
        return self._ticket("fetch", keys, timeout_s, numpy.zeros(len(keys), farpage.ticket.VERDICT))

    def put(self, keys, memory, *, timeout_s):
        self.memory = memory
        return self._ticket("put", keys, timeout_s, numpy.zeros(len(keys), farpage.ticket.PUT_RESULT))

    def _ticket(self, what, keys, timeout_s, result):
        self.calls.append((what, len(keys), timeout_s))
        self.clock_s += self.takes_s
        if len(self.calls) == self.fails_at:
            raise farpage.ExhaustedError("too many")
        there = numpy.array([key.tobytes() not in self.absent for key in keys], bool)
        if what == "put":
            result["code"] = numpy.where(there, farpage.Code.OK, farpage.Code.TIMEOUT)
        else:
            result["verdict"] = numpy.where(there, farpage.Verdict.READY, farpage.Verdict.RECOMPUTE)
            result["reason"] = numpy.where(there, 0, self.reason)
        return types.SimpleNamespace(wait=lambda: result, wait_released=lambda: self.released.append(what))


class SglangStorageTest(unittest.TestCase):
    def setUp(self):
        self.client = Client()
        clock = types.SimpleNamespace(monotonic=lambda: self.client.clock_s)
        for name, stand_in in (("Connection", mock.Mock()), ("time", clock)):
            patch = mock.patch.object(sglang, name, stand_in)
            patch.start()
            self.addCleanup(patch.stop)
        self.device = device_pool()[0]

    def storage(self, side=(), layout="page_first", **extra):
        """One that has its client."""
        extra = {"interface_v1": 1, "timeout_ms": 1000 * TIMEOUT_S, "store_timeout_ms": 1000 * STORE_TIMEOUT_S, "node": "n", **extra}
        storage = sglang.FarpageStorage(types.SimpleNamespace(**{**vars(CONFIG), "extra_config": extra}))
        storage.register_mem_pool_host(host_pool(self.device, layout))
        for name in side:
            storage.register_mem_host_pool_v2(host_pool(self.device, layout), name)
        storage._prepare(self.client)
        return storage

    def without(self, storage, *pages, pool=PoolName.KV, part=0):
        """The nodes lack a part of these pages."""
        self.client.absent |= {storage._pools[pool.value].keys([NAMES[page]])[part].tobytes() for page in pages}

    # ---- Settings

    def test_the_client_has_its_settings_and_no_others(self):
        mine = {"dtype": "", "salt": "", "cost_model": False, "prefill_tokens_per_s": 0, "allow_untested": False}
        sglangs = {"backend_name": "farpage", "module_path": "m", "class_name": "c", "allocator": "shm"}
        self.storage(**mine, **sglangs, lanes=2)
        self.assertEqual(sglang.Connection.call_args.args[0], {"node": "n", "lanes": 2})

    def test_a_release_that_was_not_tested_is_refused(self):
        with mock.patch.object(sglang.sglang, "__version__", "0.6.1"):
            with self.assertRaisesRegex(farpage.InvalidError, "allow_untested"):
                self.storage()
            self.storage(allow_untested=True)

    def test_settings_that_make_no_sense_are_refused(self):
        for setting in ({"timeout_ms": "200"}, {"store_timeout_ms": 0}, {"cost_model": "yes"}, {"dtype": 5}):
            with self.assertRaisesRegex(farpage.InvalidError, f"{next(iter(setting))} is .*: give "):
                self.storage(**setting)

    # ---- Memory

    def test_a_client_that_was_not_prepared_leaves_no_region(self):
        """Its regions ended with it."""
        storage, other = self.storage(side=[PoolName.INDEXER]), Client()
        storage._prepare(other)
        self.assertEqual(len(other.regions), 2)
        self.assertEqual(storage._regions, other.regions)

    def test_the_longest_part_has_to_fit(self):
        storage = self.storage()
        pool = mamba_pool()
        sizes = sglang.HostPool(pool, storage._pools["kv"].space, sglang.Epoch(), is_copied=False).part_bytes
        self.assertGreater(len(set(sizes)), 1)
        self.client.page_bytes = max(sizes) - 1
        with self.assertLogs("farpage", "ERROR") as said:
            storage.register_mem_host_pool_v2(pool, PoolName.MAMBA)
        self.assertIn(f"--page-bytes {max(sizes)}", said.output[0])
        self.assertNotIn("mamba", storage._pools)

    def test_of_pools_that_sglang_copies_it_copies_kv_alone(self):
        storage = self.storage(side=[PoolName.INDEXER], interface_v1=0)
        self.assertEqual([(name, pool.is_copied) for name, pool in storage._pools.items()], [("kv", True), ("indexer", False)])
        self.assertEqual([region.address for region in self.client.regions], [storage._pools["indexer"].pool.kv_buffer.data_ptr()])

    def test_what_lies_in_no_region_is_not_moved(self):
        storage = self.storage()
        first, half = storage._regions[0].address, storage._regions[0].bytes // 2
        part_bytes = storage._pools["kv"].part_bytes[0]
        values = self.client.region(first + half, half)
        for keys, moved in (((1, 4), {1, 2, 3}), ((0, 1), {0}), ((2, 2), set())):
            bounds = [first + page * part_bytes for page in keys]
            storage._regions = [self.client.region(bounds[0], bounds[1] - bounds[0]), values]
            for call in (storage.batch_get_v1, storage.batch_set_v1):
                self.assertEqual(call(NAMES, PLACES), [page in moved for page in range(len(NAMES))])
        self.client.calls, storage._regions = [], []
        self.assertEqual((storage.batch_get_v1(NAMES, PLACES), self.client.calls), ([False] * len(NAMES), []))

    # ---- Deadlines

    def test_the_questions_of_a_prefix_share_one_deadline(self):
        storage = self.storage()
        self.client.takes_s = 0.75
        with mock.patch.object(sglang, "KEYS_AT_ONCE", 4):
            self.assertEqual(storage.batch_exists(NAMES), len(NAMES))
        self.assertEqual(self.client.calls, [("exists", 4, 2.0), ("exists", 4, 1.25), ("exists", 4, 0.5)])
        self.client.calls.clear()
        with mock.patch.object(sglang, "KEYS_AT_ONCE", 2):
            storage.batch_exists(NAMES)
        self.assertEqual([left_s for _, _, left_s in self.client.calls], [2.0, 1.25, 0.5, 0.0, 0.0, 0.0])

    def test_loads_and_stores_have_their_own_deadline_for_all_pools(self):
        storage = self.storage(side=[PoolName.INDEXER])
        transfers = [PoolTransfer(name, keys=NAMES, host_indices=PLACES) for name in (PoolName.KV, PoolName.INDEXER)]
        self.client.takes_s = 1.5
        storage.batch_get_v2(transfers)
        storage.batch_set_v2(transfers)
        self.assertEqual(self.client.calls, [("fetch", 12, 2.0), ("fetch", 12, 0.5), ("put", 12, 5.0), ("put", 12, 3.5)])
        self.client.calls.clear()
        self.client.takes_s = 3
        storage.batch_get_v2(transfers)
        self.assertEqual([left_s for _, _, left_s in self.client.calls], [2.0, 0.0])

    # ---- Exceptions

    def test_no_exception_reaches_sglang(self):
        storage, nothing = self.storage(), [False] * len(NAMES)
        kv = PoolTransfer(PoolName.KV, keys=NAMES, host_indices=PLACES)
        target = torch.zeros(8)
        calls = {"exists": ((NAMES[0],), False), "batch_exists": ((NAMES,), 0), "batch_get_v1": ((NAMES, PLACES), nothing),
                 "batch_set_v1": ((NAMES, PLACES), nothing), "batch_get_v2": (([kv],), {PoolName.KV: nothing}),
                 "batch_set_v2": (([kv],), {PoolName.KV: nothing}), "batch_get": (([NAMES[0]], [target]), [None]), "get": ((NAMES[0], target), None),
                 "batch_set": (([NAMES[0]], [target]), False), "set": ((NAMES[0], target), False),
                 "batch_exists_v2": ((NAMES,), PoolTransferResult.empty())}
        with self.assertLogs("farpage", "ERROR"):
            for name, (arguments, answer) in calls.items():
                self.client.calls, self.client.fails_at = [], 1
                self.assertEqual(getattr(storage, name)(*arguments), answer, name)
                self.assertEqual(len(self.client.calls), 1, name)

    def test_figures_that_fail_are_none(self):
        storage = self.storage()
        storage._moved = None
        with self.assertLogs("farpage", "ERROR"):
            self.assertIsNone(storage.get_stats())

    def test_one_that_comes_again_and_again_is_told_once(self):
        storage = self.storage()
        with self.assertLogs("farpage", "ERROR") as said:
            for _ in range(3):
                self.client.calls, self.client.fails_at = [], 1
                storage.batch_exists(NAMES)
            storage.batch_get_v1(NAMES, PLACES[1:])
        self.assertEqual(len(said.output), 2, said.output)

    def test_what_was_begun_before_an_exception_is_waited_for(self):
        storage = self.storage(side=[PoolName.INDEXER])
        transfers = [PoolTransfer(name, keys=NAMES, host_indices=PLACES) for name in (PoolName.KV, PoolName.INDEXER)]
        self.client.fails_at = 2
        with self.assertLogs("farpage", "ERROR"):
            self.assertEqual(storage.batch_get_v2(transfers), {each.name: [False] * len(NAMES) for each in transfers})
        self.assertEqual(self.client.released, ["fetch"])

    def test_everything_is_waited_for(self):
        storage = self.storage(side=[PoolName.INDEXER])
        storage.batch_get_v2([PoolTransfer(name, keys=NAMES, host_indices=PLACES) for name in (PoolName.KV, PoolName.INDEXER)])
        self.assertEqual(self.client.released, ["fetch", "fetch"])

    # ---- Pages

    def test_a_prefix_ends_at_the_first_page_that_is_not_whole(self):
        storage = self.storage()
        self.without(storage, 2, 4, part=1)
        self.assertEqual(storage.batch_exists(NAMES), 2)
        self.assertEqual(storage.batch_get_v1(NAMES, PLACES), [True, True, False, True, False, True])

    def test_windows_that_are_there_at_the_end_alone_do(self):
        """Over several questions, of which the first ones find nothing of the window."""
        storage = self.storage(side=[PoolName.SWA])
        self.without(storage, 0, 1, 2, 3, pool=PoolName.SWA)
        swa = PoolTransfer(PoolName.SWA, keys=NAMES[-2:], hit_policy=PoolHitPolicy.TRAILING_PAGES)
        with mock.patch.object(sglang, "KEYS_AT_ONCE", 8):
            found = storage.batch_exists_v2(NAMES, [swa])
            self.assertEqual(found, PoolTransferResult(6, {PoolName.KV: 6, PoolName.SWA: 6}, [6]))
            self.assertEqual(len(self.client.calls), 3)
            # And no question is asked beyond the first page that KV lacks.
            self.client.calls.clear()
            self.without(storage, 1)
            self.assertEqual(storage.batch_exists_v2(NAMES, [swa]).kv_hit_pages, 0)
            self.assertEqual(len(self.client.calls), 1)

    def test_a_window_of_no_page_is_one_of_one(self):
        storage = self.storage(side=[PoolName.SWA])
        self.without(storage, 2, 5, pool=PoolName.SWA)
        found = storage.batch_exists_v2(NAMES, [PoolTransfer(PoolName.SWA, hit_policy=PoolHitPolicy.TRAILING_PAGES)])
        self.assertEqual(found, PoolTransferResult(5, {PoolName.KV: 6, PoolName.SWA: 5}, [1, 2, 4, 5]))

    def test_without_pages_or_their_pool_nobody_is_asked(self):
        storage = self.storage()
        with self.assertNoLogs("farpage", "ERROR"):
            self.assertEqual((storage.batch_exists([]), storage.batch_exists_v2([]), storage.batch_get([])), (0, PoolTransferResult.empty(), []))
            draft = PoolTransfer(PoolName.DRAFT, keys=NAMES, host_indices=PLACES)
            kv = PoolTransfer(PoolName.KV, keys=NAMES, host_indices=PLACES)
            self.assertEqual(storage.batch_exists_v2(NAMES, [draft]).kv_hit_pages, 0)
            nothing = {each.name: [False] * len(NAMES) for each in (kv, draft)}
            self.assertEqual((storage.batch_get_v2([kv, draft]), storage.batch_set_v2([kv, draft])), (nothing, nothing))
        self.assertEqual(self.client.calls, [])

    def test_places_that_are_not_those_of_the_pages_are_refused(self):
        for interface in (1, 0):
            storage = self.storage(interface_v1=interface)
            self.client.calls = []
            with self.assertLogs("farpage", "ERROR") as said:
                for places in (PLACES[1:], PLACES[:len(NAMES) - 1], PLACES[:0]):
                    self.assertEqual(storage.batch_get_v1(NAMES, places), [False] * len(NAMES))
            self.assertEqual(self.client.calls, [])
            self.assertEqual([line for line in said.output if "places of tokens" not in line], [])

    def test_memory_that_sglang_names_for_fewer_parts_is_refused(self):
        """Which of the parts it is nobody knows."""
        storage = self.storage()
        pool = storage._pools["kv"].pool
        named = pool.get_page_buffer_meta(PLACES)
        with mock.patch.object(pool, "get_page_buffer_meta", lambda _: tuple(each[:-1] for each in named)), self.assertLogs("farpage", "ERROR") as said:
            self.assertEqual(storage.batch_get_v1(NAMES, PLACES), [False] * len(NAMES))
        self.assertIn("SGLang names memory for 11", said.output[0])
        self.assertEqual(self.client.calls, [])

    # ---- Copies

    def test_pages_are_copied_from_their_places_and_to_them(self):
        storage = self.storage(interface_v1=0)
        pool = storage._pools["kv"].pool
        places = PLACES.flip(0).reshape(-1, PAGE_TOKENS).flip(1).flatten()  # the last page first
        pages = [torch.full_like(pool.get_dummy_flat_data_page(), number + 1) for number in range(len(NAMES))]
        for page, place in zip(pages, places[::PAGE_TOKENS].tolist()):
            pool.set_from_flat_data_page(place, page)
        with mock.patch.object(pool, "set_from_flat_data_page") as keep:
            self.assertEqual(storage.batch_set_v1(NAMES, places), [True] * len(NAMES))
            keep.assert_not_called()
        self.assertTrue(all(given.is_contiguous() for given in self.client.memory))
        assert_bytes(all(map(torch.equal, self.client.memory, pages)) and len(self.client.memory) == len(pages), "what is stored")
        pool.kv_buffer.fill_(5)
        self.without(storage, 2)
        self.assertEqual(storage.batch_get_v1(NAMES, places), [page != 2 for page in range(len(NAMES))])
        kept = [pool.get_data_page(place).unique().tolist() for place in places[::PAGE_TOKENS].tolist()]
        assert_bytes(kept == [[5.0] if page == 2 else [Client.LOADED] for page in range(len(NAMES))], f"pages: {kept}")

    def test_tensors_that_sglang_has_copied(self):
        storage = self.storage(interface_v1=0)
        tensors = [torch.arange(6).reshape(2, 3).t() for _ in NAMES]
        self.assertTrue(storage.batch_set(NAMES, tensors))
        self.assertTrue(all(each.is_contiguous() for each in self.client.memory))
        assert_bytes(all(torch.equal(each, tensors[0]) for each in self.client.memory), "what is stored")
        self.without(storage, 1)
        self.assertFalse(storage.batch_set(NAMES, tensors))
        targets = [torch.zeros(4) for _ in NAMES]
        got = storage.batch_get(NAMES, targets)
        self.assertEqual([each is target for each, target in zip(got, targets, strict=True)], [page != 1 for page in range(len(NAMES))])
        self.assertIsNone(got[1])
        self.client.calls = []
        nothing = [None] * len(NAMES)
        self.assertEqual((storage.batch_get(NAMES, targets[1:]), storage.batch_get(NAMES), storage.batch_set(NAMES, tensors[1:])), (nothing, nothing, False))
        self.assertEqual(self.client.calls, [])

    def test_a_copied_page_is_another_page(self):
        pools = [self.storage(interface_v1=interface)._pools["kv"] for interface in (0, 1)]
        copied, named = ({key.tobytes() for key in pool.keys(NAMES)} for pool in pools)
        self.assertEqual((len(copied), len(named), copied & named), (len(NAMES), 2 * len(NAMES), set()))

    def test_what_holds_no_bytes_is_not_registered(self):
        one, two = torch.zeros(8), torch.zeros(4)
        pool = self.storage()._pools["kv"]
        pool.pool = types.SimpleNamespace(kv_buffer=[one, None, torch.zeros(0)], get_hybrid_pool_buffer=lambda: [two])
        self.assertEqual([id(each) for each in pool.buffers()], [id(one), id(two)])

    def test_groups_of_blocks_end_no_prefix(self):
        storage = self.storage(side=[PoolName.INDEXER])
        self.without(storage, 0, 1, pool=PoolName.INDEXER)
        groups = [PoolTransfer(name, keys=NAMES, hit_policy=PoolHitPolicy.BLOCK_GROUPS) for name in (PoolName.INDEXER, PoolName.DRAFT)]
        self.assertEqual(storage.batch_exists_v2(NAMES, groups), PoolTransferResult(6, {PoolName.KV: 6}, [1, 2, 3, 4, 5, 6]))

    def test_pools_that_sglang_does_not_store_from_each_rank_are_told(self):
        """A draft of MHA below a target of MLA: its parts would never be whole."""
        sharded, shared = host_pool(self.device, "page_first"), types.SimpleNamespace()
        for is_mla_model, tp_size, name, pool, is_told in (
                (True, 2, "draft", sharded, True), (True, 2, "draft_swa", sharded, True), (True, 1, "draft", sharded, False),
                (False, 2, "draft", sharded, False), (True, 2, "mamba", sharded, False), (True, 2, "draft", shared, False)):
            config = types.SimpleNamespace(is_mla_model=is_mla_model, tp_size=tp_size)
            self.assertEqual(sglang_facts.is_stored_by_one_rank(config, name, pool), is_told, (is_mla_model, tp_size, name))
        storage = self.storage()
        storage._config = types.SimpleNamespace(**{**vars(storage._config), "is_mla_model": True, "tp_size": 2})
        with self.assertLogs("farpage", "WARNING") as said:
            for _ in range(2):
                storage.register_mem_host_pool_v2(sharded, PoolName.DRAFT)
        self.assertEqual(len(said.output), 1)
        self.assertIn("no prefix is found", said.output[0])

    def test_that_sglang_stores_such_pools_from_one_rank(self):
        """What the warning says of it: once this fails, the warning may go."""
        controller = types.SimpleNamespace(backup_skip=True, storage_backend_type="dynamic")
        stored = [HybridCacheController.should_backup(controller, PoolTransfer(name)) for name in (PoolName.DRAFT, PoolName.DRAFT_SWA, PoolName.MAMBA)]
        self.assertEqual(stored, [False, False, True])

    # ---- Clearing

    def names_of(self, storage):
        return [{key.tobytes() for key in pool.keys(NAMES)} for pool in storage._pools.values()]

    def test_what_was_cleared_is_not_found_and_nobody_else_finds_what_comes(self):
        storages = [self.storage(side=[PoolName.INDEXER]) for _ in range(2)]
        before, other = (self.names_of(each) for each in storages)
        self.assertEqual(before, other)
        for storage in storages:
            self.assertIsNone(storage.clear())
        names = [before, *(self.names_of(each) for each in storages)]
        storages[0].clear()
        names.append(self.names_of(storages[0]))
        for pool in (0, 1):
            self.assertEqual(len(set.union(*(each[pool] for each in names))), 4 * len(before[pool]))
        self.client.absent = set.union(*before)
        self.assertEqual((storages[0].batch_exists(NAMES), storages[0].batch_set_v1(NAMES, PLACES)), (len(NAMES), [True] * len(NAMES)))

    def test_ranks_that_share_pages_and_cannot_agree_miss_all_of_them(self):
        for is_mla_model, tp_size, is_refused in ((True, 2, True), (True, 1, False), (False, 2, False)):
            storage = self.storage()
            storage._config = types.SimpleNamespace(**{**vars(storage._config), "is_mla_model": is_mla_model, "tp_size": tp_size})
            with self.subTest((is_mla_model, tp_size)), mock.patch.object(sglang_facts, "SHARDED", ()):
                before, self.client.calls = self.names_of(storage), []
                if is_refused:
                    with self.assertRaisesRegex(farpage.InvalidError, "attached with another \"salt\""):
                        storage.clear()
                else:
                    storage.clear()
                found = 0 if is_refused else len(NAMES)
                self.assertEqual((storage.batch_exists(NAMES), sum(storage.batch_set_v1(NAMES, PLACES))), (found, found))
                self.assertEqual(bool(self.client.calls), not is_refused)
                # Also if a node answers only now.
                storage._prepare(self.client)
                self.assertFalse(set.union(*before) & set.union(*self.names_of(storage)))

    # ---- Figures and worth

    def test_a_late_answer_of_any_question_is_a_stall(self):
        storage = self.storage(side=[PoolName.SWA])
        self.without(storage, 0, pool=PoolName.SWA)
        swa = PoolTransfer(PoolName.SWA, keys=NAMES[-2:], hit_policy=PoolHitPolicy.TRAILING_PAGES)
        with mock.patch.object(sglang, "KEYS_AT_ONCE", 8):
            for reason, stalls in ((farpage.Reason.MISS, 0), (farpage.Reason.STALLED, 1), (farpage.Reason.UNREACHABLE, 2)):
                self.client.reason = reason
                self.assertEqual(storage.batch_exists_v2(NAMES, [swa]).kv_hit_pages, 6)
                self.assertEqual(storage.figures.of("stalls")["lookup"], stalls)

    def test_a_prefix_is_worth_its_tokens_against_the_bytes_of_all_its_pools(self):
        storage = self.storage(side=[PoolName.INDEXER], cost_model=True)
        page_bytes = {name: sum(pool.part_bytes) for name, pool in storage._pools.items()}
        indexer = PoolTransfer(PoolName.INDEXER, keys=NAMES)
        self.without(storage, 4)
        with mock.patch.object(storage._worth, "is_worth", return_value=False) as asked:
            self.assertEqual((storage.batch_exists(NAMES), storage.batch_exists_v2(NAMES, [indexer])), (0, PoolTransferResult.empty()))
            self.assertEqual([call.args for call in asked.call_args_list],
                             [(4 * PAGE_TOKENS, 4 * page_bytes["kv"]), (4 * PAGE_TOKENS, 4 * (page_bytes["kv"] + page_bytes["indexer"]))])
            self.assertEqual(storage.figures.of("pages"), {"found": 8, "slower": 8})

    def test_loads_are_measured_and_each_token_counts_once(self):
        storage = self.storage(side=[PoolName.INDEXER])
        transfers = [PoolTransfer(name, keys=NAMES, host_indices=PLACES) for name in (PoolName.KV, PoolName.INDEXER)]
        page_bytes = sum(sum(pool.part_bytes) for pool in storage._pools.values())
        self.client.takes_s = 0.25
        with mock.patch.object(storage._worth, "loaded") as loaded:
            storage.batch_set_v2(transfers)
            loaded.assert_not_called()
            storage.batch_get_v2(transfers)
            loaded.assert_called_once_with(len(NAMES) * page_bytes, len(NAMES) * PAGE_TOKENS, 0.5)
            for pool in (PoolName.KV, PoolName.INDEXER):
                self.without(storage, *range(len(NAMES)), pool=pool)
            storage.batch_get_v2(transfers)  # a miss says nothing about loads
            self.assertEqual(loaded.call_count, 1)
            self.client.reason = farpage.Reason.STALLED
            storage.batch_get_v2(transfers)
            self.assertEqual(loaded.call_args.args, (0, 0, 0.5))

    def test_sglang_takes_its_statistics_once_where_it_shows_them(self):
        storage = self.storage()
        storage.batch_get_v1(NAMES, PLACES)
        self.assertEqual(storage._moved, [])
        storage._config.enable_storage_metrics = True
        storage.batch_get_v1(NAMES, PLACES)
        storage.batch_set_v1(NAMES[:2], PLACES[:2 * PAGE_TOKENS])
        taken = [storage.get_stats() for _ in range(2)]
        self.assertEqual([(stats.prefetch_pgs, stats.backup_pgs) for stats in taken], [([6], [2]), ([], [])])

    def test_what_was_closed_answers_at_once(self):
        storage = self.storage()
        storage.close()
        sglang.Connection.return_value.close.assert_called_once_with()
        self.assertEqual((storage.batch_exists(NAMES), storage.batch_get_v1(NAMES, PLACES)), (0, [False] * len(NAMES)))
        self.assertEqual((self.client.calls, storage._client, storage._regions, storage._pools), ([], None, [], {}))

    def test_what_is_not_there_is_no_decision(self):
        storage = self.storage(cost_model=True)
        self.without(storage, 0)
        self.assertEqual((storage.batch_exists(NAMES), storage.batch_exists_v2(NAMES).kv_hit_pages), (0, 0))
        self.assertEqual(storage.figures.of("decisions"), {})


if __name__ == "__main__":
    unittest.main()
