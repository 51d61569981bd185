"""FarpageStorage under SGLang's own controllers, host pools and threads: no model and no GPU. Runs
in an environment with SGLang (scripts/test-engines)."""

import dataclasses
import itertools
import json
import os
import signal
import threading
import time
import types
import unittest
from unittest import mock

import numpy
import torch
from etcd import free_ports
from program import fetch, stop, values_of, wait_until
from sglang_engine import PAGE_TOKENS, PAGES, PATIENCE_S, LogicalHostPool, PoolHitPolicy, PoolName, PoolTransfer, StorageCase, mamba_pool, tokens
from sglang.srt.mem_cache.pool_host import common
from truth import assert_bytes

import farpage
from farpage.engines import sglang_facts

LAYOUTS = ("layer_first", "page_first", "page_first_direct", "page_head")
TIMEOUT_S = 0.2
WATCHDOG_S = 30  # of what would not end: sglang_storage_test.py has the deadlines, by its own clock
SIDE = {PoolName.INDEXER: PoolHitPolicy.ALL_PAGES, PoolName.SWA: PoolHitPolicy.TRAILING_PAGES}


class SglangTest(StorageCase):
    def assert_pages(self, pages, wanted):
        self.assertEqual(len(pages), len(wanted))
        for number, (page, other) in enumerate(zip(pages, wanted)):
            assert_bytes(torch.equal(page, other), f"page {number}")

    def assert_loads(self, engine, count, wanted):
        _, loaded, _, pages, _ = engine.load(tokens(1000, PAGES))
        self.assertEqual(loaded, count)
        self.assert_pages(pages, wanted[:count])

    def assert_lives(self, engine):
        controller = engine.controller
        for thread in (controller.prefetch_thread, controller.prefetch_io_aux_thread, controller.backup_thread):
            self.assertTrue(thread.is_alive())

    # ---- What comes back

    def test_pages_come_back_in_each_layout(self):
        for layout in LAYOUTS:
            for interface in (1, 0):
                with self.subTest(layout=layout, interface=interface):
                    engine, wanted, _ = self.stored(layout=layout, interface_v1=interface)
                    parts = 1 if not interface else 8 if layout == "layer_first" else 2
                    self.assertEqual(engine.storage._client.statistics().puts_acknowledged, parts * PAGES)
                    self.assert_loads(engine, PAGES, wanted)
                    self.assertEqual(engine.load(tokens(500_000, 3))[0], 0)
                    self.assertTrue(engine.storage.exists(engine.hashes(tokens(1000, 1))[0]))
                    engine.close()

    def test_one_registration_has_all_of_the_pool(self):
        engine, _, _ = self.stored()
        buffer, (region,) = engine.host.kv_buffer, engine.storage._regions
        self.assertEqual((region.address, region.bytes), (buffer.data_ptr(), buffer.nbytes))

    def test_a_host_pool_in_shared_memory_is_read_by_the_node_where_it_lies(self):
        port, = free_ports(1)
        self.node = self.start_node("--page-bytes", "256KiB", "--set", f"node.metrics_listen=127.0.0.1:{port}", pool="256MiB", name="measured")

        def in_place():
            return values_of(fetch(f"http://127.0.0.1:{port}/metrics"))["farpage_node_puts_in_place_total"]

        for allocator, is_in_place in (("default", False), ("shm", True)):
            engine, wanted, _ = self.stored(host_allocator=allocator, salt=allocator)
            self.assert_loads(engine, PAGES, wanted)
            # The node gets the file with the second put.
            firsts = itertools.count(20_000, 1000)
            self.assertTrue(wait_until(lambda: engine.store(tokens(next(firsts), PAGES))[2] == PAGES and (in_place() > 0 or not is_in_place)))
            before = in_place()
            self.assertEqual(engine.store(tokens(9000, PAGES))[2], PAGES)
            # K and V.
            self.assertEqual(in_place() - before, 2 * PAGES if is_in_place else 0, allocator)
            wanted, *_ = engine.last
            engine.host.kv_buffer.zero_()
            assert_bytes(all(map(torch.equal, engine.load(tokens(9000, PAGES))[3], wanted)), f"a pool of the allocator {allocator}")
            engine.close()

    def test_the_allocator_that_sglang_takes_for_its_host_pool(self):
        shm = json.dumps({"allocator": "shm"})
        for given, allocator in ((shm, "shm"), ("@sglang.json", "dynamic"), ("{}", "dynamic")):
            memory = types.SimpleNamespace(hicache_storage_backend="dynamic", hicache_storage_backend_extra_config=given)
            with mock.patch.object(common, "get_memory", lambda memory=memory: memory):
                self.assertEqual(common.get_allocator_type(), allocator)

    def test_another_engine_finds_them(self):
        engine, wanted, _ = self.stored()
        other = self.engine()
        self.assert_loads(other, PAGES, wanted)
        engine.close()
        self.assert_loads(other, PAGES, wanted)

    def test_a_part_that_is_gone_ends_the_prefix_there(self):
        for layout in LAYOUTS:
            with self.subTest(layout=layout):
                engine, wanted, _ = self.stored(layout=layout, salt=layout)
                self.assertEqual(engine.load(tokens(1000, PAGES), lambda engine=engine: self.drop(engine, 7, 1))[:2], (PAGES, 7))
                self.assertEqual(engine.load(tokens(1000, PAGES))[:2], (7, 7))
                self.assert_loads(engine, 7, wanted)
                engine.close()

    def test_of_pages_that_sglang_copies_those_that_are_gone_are_none(self):
        engine, wanted, _ = self.stored(interface_v1=0)
        self.drop(engine, 2, 0)
        targets = [engine.host.get_dummy_flat_data_page() for _ in range(PAGES)]
        pages = engine.storage.batch_get(engine.hashes(tokens(1000, PAGES)), targets)
        self.assertEqual([number for number, page in enumerate(pages) if page is None], [2])
        self.assert_pages([page for page in pages if page is not None], [page for number, page in enumerate(wanted) if number != 2])
        too_long = torch.zeros(1 << 20, dtype=torch.uint8)
        self.assertFalse(engine.storage.batch_set(engine.hashes(tokens(5000, 2)), [targets[0], too_long]))

    def test_no_pages_are_no_question(self):
        engine = self.engine()
        self.assertEqual((engine.storage.batch_exists([]), engine.storage.batch_get_v1([], torch.empty(0, dtype=torch.int64))), (0, []))

    def test_sglangs_clear_leaves_nothing_that_is_found(self):
        engine, wanted, _ = self.stored(side=SIDE)
        self.assertTrue(engine.controller.clear_storage_backend())
        self.assertEqual(engine.load(tokens(1000, PAGES))[0], 0, "wrong bytes: those of before the clear")
        self.assertEqual(engine.store(tokens(3000, PAGES))[2], PAGES)
        self.assertEqual(engine.load(tokens(3000, PAGES))[:2], (PAGES, PAGES))
        # Another engine has its own, as before.
        other = self.engine(side=SIDE)
        self.assertEqual(other.load(tokens(3000, PAGES))[0], 0)
        self.assert_loads(other, PAGES, wanted)

    # ---- Side pools

    def test_side_pools_come_back_with_the_pages(self):
        engine, wanted, side = self.stored(side=SIDE)
        for host, _ in engine.side.values():
            host.kv_buffer.zero_()
        found, loaded, hits, pages, back = engine.load(tokens(1000, PAGES))
        self.assertEqual((found, loaded, hits[PoolName.SWA.value]), (PAGES, PAGES, 2))
        self.assert_pages(pages, wanted)
        for name in SIDE:
            self.assert_pages(back[name], side[name])

    def test_a_side_pool_that_lost_a_page_ends_the_prefix(self):
        engine, _, _ = self.stored(side=SIDE)
        self.drop(engine, 11, 0, PoolName.INDEXER)
        # Only behind the last page SWA has what is needed.
        self.assertEqual(engine.load(tokens(1000, PAGES))[0], 0)
        engine.store(tokens(1000, PAGES))
        self.assertEqual(engine.load(tokens(1000, PAGES), lambda: self.drop(engine, 11, 0, PoolName.INDEXER))[:2], (PAGES, 11))
        engine.store(tokens(1000, PAGES))
        self.drop(engine, PAGES - 2, 0, PoolName.SWA)
        self.assertEqual(engine.load(tokens(1000, PAGES))[0], 0)

    def test_states_of_mamba(self):
        for side_state, part_count in ((False, 3), (True, 1)):
            with self.subTest(side_state=side_state):
                engine, pool = self.engine(salt=str(side_state)), mamba_pool(side_state)
                engine.storage.register_mem_host_pool_v2(pool, PoolName.MAMBA)
                self.assertEqual(len(engine.storage._pools["mamba"].part_bytes), part_count)
                for buffer in pool.kv_buffer:
                    buffer.copy_(torch.randn(buffer.shape))
                names, places = engine.hashes(tokens(1000, 3)), torch.tensor([7, 2, 11])
                wanted = [pool.get_data_page(place).clone() for place in places.tolist()]
                transfer = PoolTransfer(PoolName.MAMBA, keys=names, host_indices=places, hit_policy=PoolHitPolicy.TRAILING_PAGES)
                self.assertEqual(engine.storage.batch_set_v2([transfer]), {PoolName.MAMBA: [True] * 3})
                for buffer in pool.kv_buffer:
                    buffer.zero_()
                keys = engine.storage._pools["mamba"].keys(names)
                engine.storage._client.remove(keys[2 * part_count - 1:][:1]).wait()  # of the second
                self.assertEqual(engine.storage.batch_get_v2([transfer]), {PoolName.MAMBA: [True, False, True]})
                for number in (0, 2):
                    assert_bytes(torch.equal(pool.get_data_page(int(places[number])), wanted[number]), number)
                engine.close()

    def test_a_pool_without_memory_has_what_its_side_pools_have(self):
        engine = self.engine(dtype="bfloat16")
        storage, names, places = engine.storage, engine.hashes(tokens(1000, 4)), torch.arange(4 * PAGE_TOKENS)
        storage.register_mem_host_pool_v2(engine.host, PoolName.DEEPSEEK_V4_C4)
        storage.register_mem_host_pool_v2(LogicalHostPool(4 * PAGE_TOKENS, PAGE_TOKENS), PoolName.KV)
        side = PoolTransfer(PoolName.DEEPSEEK_V4_C4, keys=names[:3], host_indices=places[:3 * PAGE_TOKENS])
        self.assertEqual(storage.batch_set_v2([side]), {PoolName.DEEPSEEK_V4_C4: [True] * 3})
        self.assertEqual((storage.batch_set_v1(names, places), storage.batch_get_v1(names, places)), ([True] * 4, [True] * 4))
        self.assertEqual((storage.batch_exists_v2(names, [side]).kv_hit_pages, storage.batch_exists(names)), (3, 0))

    def test_a_pool_that_is_not_known_is_a_miss(self):
        engine, _, _ = self.stored()
        names, places = engine.hashes(tokens(1000, PAGES)), torch.arange(PAGES * PAGE_TOKENS)
        draft = PoolTransfer(PoolName.DRAFT, keys=names, host_indices=places)
        self.assertEqual(engine.storage.batch_exists_v2(names, [draft]).kv_hit_pages, 0)
        self.assertEqual(engine.storage.batch_get_v2([draft]), {PoolName.DRAFT: [False] * PAGES})

    def test_where_a_prefix_may_end(self):
        engine = self.engine(side=SIDE)
        names, storage = engine.hashes(tokens(1000, 8)), engine.storage
        indexer, swa = (mock.Mock(hit_policy=policy, keys=["", ""]) for policy in SIDE.values())
        indexer.name, swa.name = SIDE
        for absent, lengths in (((), []), (("swa", 5), [1, 2, 3, 4, 5, 8]), (("indexer", 5), [1, 2, 3, 4, 5]), (("kv", 3), [1, 2, 3]), (("kv", 0), [])):
            with self.subTest(absent=absent):
                there = {pool: numpy.array([(pool, page) != absent for page in range(8)]) for pool in ("kv", "indexer", "swa")}
                with mock.patch.object(storage, "_find", lambda pools, names, there=there: list(there.values())):
                    answer = storage.batch_exists_v2(names, [indexer, swa])
                lengths = lengths if absent else list(range(1, 9))
                self.assertEqual((answer.restorable_prefix_pages, answer.kv_hit_pages), (lengths, max(lengths, default=0)))

    # ---- Nodes that fail

    def assert_no_wait(self, engine):
        """Neither a question nor a load nor a store."""
        names, places = engine.hashes(tokens(1000, PAGES)), torch.arange(PAGES * PAGE_TOKENS)
        for call, answer in ((lambda: engine.storage.batch_exists(names), 0), (lambda: engine.storage.batch_get_v1(names, places), [False] * PAGES),
                             (lambda: engine.storage.batch_set_v1(names, places), [False] * PAGES)):
            begun = time.monotonic()
            self.assertEqual(call(), answer)
            self.assertLess(time.monotonic() - begun, WATCHDOG_S)
        self.assertEqual(engine.load(tokens(1000, PAGES))[0], 0)
        self.assertEqual(engine.store(tokens(7000, 2))[2], 0)
        self.assert_lives(engine)

    def test_a_stopped_node_holds_nobody_up_and_nothing_lands_later(self):
        for listen in (None, "tcp://127.0.0.1:0"):
            with self.subTest(listen=listen):
                self.listen = listen
                self.node = self.new_node(name="tcp" if listen else "shm")
                engine, _, _ = self.stored(timeout_ms=TIMEOUT_S * 1000, store_timeout_ms=1000)
                stop(self.node.pid)
                self.await_unreachable(engine)
                self.assert_no_wait(engine)
                engine.host.kv_buffer.zero_()
                self.node.send_signal(signal.SIGCONT)
                self.assertTrue(wait_until(lambda engine=engine: engine.storage.batch_exists(engine.hashes(tokens(1000, PAGES))) == PAGES))
                assert_bytes(not engine.host.kv_buffer.any(), "memory that a load wrote after it had ended")
                self.assertTrue(wait_until(lambda engine=engine: engine.load(tokens(1000, PAGES))[1] == PAGES))
                engine.close()

    def test_an_answer_waits_until_nothing_touches_the_pool(self):
        engine, _, _ = self.stored()
        names, places = engine.hashes(tokens(1000, PAGES)), torch.arange(PAGES * PAGE_TOKENS)
        for operation, call in (("put", engine.storage.batch_set_v1), ("fetch", engine.storage.batch_get_v1)):
            begin, asked, may_go, answers = getattr(farpage.Client, operation), threading.Event(), threading.Event(), []

            def held(*arguments, begin=begin, asked=asked, may_go=may_go, **more):
                ticket = begin(*arguments, **more)
                return types.SimpleNamespace(wait=ticket.wait, wait_released=lambda: asked.set() or may_go.wait(PATIENCE_S))

            with self.subTest(operation), mock.patch.object(farpage.Client, operation, held):
                thread = threading.Thread(target=lambda call=call, answers=answers: answers.append(call(names, places)))
                thread.start()
                self.assertTrue(asked.wait(PATIENCE_S))
                self.assertEqual(answers, [])
                may_go.set()
                thread.join(PATIENCE_S)
                self.assertEqual(answers, [[True] * PAGES])

    def test_a_dead_node_holds_nobody_up_and_one_that_comes_back_is_used(self):
        engine, _, _ = self.stored(timeout_ms=TIMEOUT_S * 1000, store_timeout_ms=1000)
        self.node.kill()
        self.node.wait()
        self.await_unreachable(engine)
        self.assert_no_wait(engine)
        self.node = self.new_node()
        self.assertTrue(wait_until(lambda: engine.store(tokens(1000, PAGES))[2] == PAGES))
        self.assertTrue(wait_until(lambda: engine.load(tokens(1000, PAGES))[1] == PAGES))

    def test_a_node_that_stops_in_the_middle_of_loads(self):
        engine, wanted, _ = self.stored(timeout_ms=TIMEOUT_S * 1000)
        for _ in range(5):
            begun = time.monotonic()
            _, loaded, _, pages, _ = engine.load(tokens(1000, PAGES), lambda: stop(self.node.pid))
            self.assertLess(time.monotonic() - begun, WATCHDOG_S)
            self.assert_pages(pages, wanted[:loaded])
            self.node.send_signal(signal.SIGCONT)
            self.assertTrue(wait_until(lambda: engine.storage.batch_exists(engine.hashes(tokens(1000, PAGES))) == PAGES))
        self.assert_lives(engine)

    def test_without_a_node_everything_is_a_miss_until_one_comes(self):
        self.node.kill()
        self.node.wait()
        engine = self.engine(connects=False)
        self.assertEqual(engine.store(tokens(1000, PAGES))[2], 0)
        self.assertEqual(engine.load(tokens(1000, PAGES))[0], 0)
        self.node = self.new_node()
        self.assertTrue(wait_until(lambda: engine.storage._client is not None))
        engine.store(tokens(1000, PAGES))
        self.assertEqual(engine.load(tokens(1000, PAGES))[:2], (PAGES, PAGES))

    def test_nodes_that_come_and_go(self):
        engine = self.engine(timeout_ms=TIMEOUT_S * 1000, store_timeout_ms=TIMEOUT_S * 1000)
        wanted, whole, longest_s = {}, 0, 0.0
        for number in range(240):
            if number % 60 == 30:
                self.node.kill()
                self.node.wait()
            if number % 60 == 45:
                self.node = self.new_node()
            prompt = number % 7
            begun = time.monotonic()
            if number % 2:
                wanted[prompt] = engine.store(tokens(10_000 * prompt, 3))[0]
            elif prompt in wanted:
                _, loaded, _, pages, _ = engine.load(tokens(10_000 * prompt, 3))
                self.assert_pages(pages, wanted[prompt][:loaded])
                whole += loaded == 3
            longest_s = max(longest_s, time.monotonic() - begun)
        self.assertGreater(whole, 0)
        self.assertLess(longest_s, WATCHDOG_S)
        self.assert_lives(engine)

    def test_sglangs_own_injector_of_faults(self):
        faults = {"SGLANG_TEST_HICACHE_BACKEND_RANDOM_DELAY": "0.01", "SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE": "0.3"}
        with mock.patch.dict(os.environ, faults):
            engine = self.engine(side=SIDE)
        self.assertIsNot(engine.storage, engine.controller.storage_backend)
        seen = set()
        for _ in range(60):
            wanted, _, stored = engine.store(tokens(1000, PAGES))
            _, loaded, _, pages, _ = engine.load(tokens(1000, PAGES))
            self.assert_pages(pages, wanted[:loaded])
            seen |= {stored, loaded}
            for host, _ in engine.side.values():
                host.clear()
        self.assertEqual(seen, {0, PAGES})
        self.assert_lives(engine)

    # ---- Namespaces and settings

    def test_each_rank_has_pages_of_its_own(self):
        engine, _, _ = self.stored()
        config, pool = engine.storage._config, engine.host
        spaces = [sglang_facts.space_of(dataclasses.replace(config, **facts), "kv", pool, "", "").namespace for facts in (
            {}, {"tp_size": 2}, {"tp_size": 2, "tp_rank": 1}, {"pp_size": 2}, {"pp_size": 2, "pp_rank": 1}, {"attn_cp_size": 2},
            {"attn_cp_size": 2, "attn_cp_rank": 1}, {"is_mla_model": True})]
        with mock.patch.object(sglang_facts.sglang, "__version__", "0.5.99"):
            spaces.append(sglang_facts.space_of(config, "kv", pool, "", "").namespace)
        with mock.patch.object(sglang_facts, "server_facts", lambda: {"kv_cache_dtype": "fp8_e5m2"}):
            spaces.append(sglang_facts.space_of(config, "kv", pool, "", "").namespace)
        self.assertEqual(len(set(spaces)), len(spaces))

    def test_what_is_the_same_in_all_ranks_is_shared(self):
        engine, _, _ = self.stored()
        config, pool = engine.storage._config, mock.Mock(spec=["layout", "dtype", "page_size"], layout="page_first", dtype=torch.bfloat16, page_size=64)
        ranks = [dataclasses.replace(config, is_mla_model=True, tp_size=2, tp_rank=rank) for rank in (0, 1)]
        for name, space_count in (("kv", 1), ("indexer", 1), ("mamba", 2)):
            self.assertEqual(len({sglang_facts.space_of(each, name, pool, "", "").namespace for each in ranks}), space_count, name)
        self.assertEqual(len({sglang_facts.space_of(each, "draft", engine.host, "", "").namespace for each in ranks}), 2)

    def test_the_formats_of_fp8_are_not_confused(self):
        kinds = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
        engines = [self.engine(kv_dtype=kind, dtype=name) for name, kind in kinds.items()]
        self.assertEqual([engine.host.dtype for engine in engines], [torch.uint8] * 2)
        self.assertEqual(engines[0].store(tokens(1000, PAGES))[2], PAGES)
        self.assertEqual([engine.load(tokens(1000, PAGES))[0] for engine in engines], [PAGES, 0], "wrong bytes: those of the other format")

    def test_fp8_without_its_format_is_not_stored(self):
        with self.assertLogs("farpage", "ERROR") as said:
            engine = self.engine(connects=False, kv_dtype=torch.float8_e5m2)
        self.assertIn('set "dtype"', said.output[0])
        self.assertEqual(engine.store(tokens(1000, PAGES))[2], 0)

    def test_pages_of_the_node_that_are_too_small(self):
        self.node = self.start_node("--page-bytes", "4KiB", name="small")
        engine = self.engine(connects=False)
        self.assertTrue(wait_until(lambda: "--page-bytes 65536" in engine.storage._connection.why_not), engine.storage._connection.why_not)
        self.assertEqual(engine.store(tokens(1000, PAGES))[2], 0)
        self.assertEqual(engine.load(tokens(1000, PAGES))[0], 0)

    def test_an_unknown_version_is_refused(self):
        with self.assertRaisesRegex(farpage.InvalidError, "0.5.23.*allow_untested"):
            sglang_facts.check_version("0.6.1", False)
        sglang_facts.check_version("0.6.1", True)

    def test_detaching_leaves_nothing(self):
        self.stored()[0].close()  # what starts with the first
        before = set(os.listdir("/proc/self/task"))
        engine, _, _ = self.stored()
        storage = engine.storage
        engine.close()
        self.assertTrue(wait_until(lambda: set(os.listdir("/proc/self/task")) <= before), [each.name for each in threading.enumerate()])
        self.assertEqual((storage.batch_exists(["x"]), storage.batch_get_v1(["x"], torch.arange(PAGE_TOKENS))), (0, [False]))


if __name__ == "__main__":
    unittest.main()
