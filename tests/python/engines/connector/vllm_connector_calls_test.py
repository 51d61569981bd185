"""What FarpageConnector refuses, and what it passes on between vLLM and its two sides: without a
node, in an environment that has vLLM (scripts/test-engines)."""

import os
import pathlib
import sys
import types
import unittest
from unittest import mock

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
SOURCE = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(SOURCE / "python"))
import torch  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole  # noqa: E402
from vllm.v1.kv_cache_interface import (  # noqa: E402
    FullAttentionSpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)

import farpage  # noqa: E402
from farpage.engines import vllm_connector  # noqa: E402
from farpage.engines.connector_plan import Load, Plan  # noqa: E402
from farpage.engines.figures import Figures  # noqa: E402
from farpage.engines.vllm_connector import (  # noqa: E402
    FarpageConnector,
    FarpageHandshake,
    FarpageLoads,
    FarpageMetadata,
)

SHAPE = {"block_size": 16, "num_kv_heads": 2, "head_size": 16, "dtype": torch.int8}
FULL, WINDOW = FullAttentionSpec(**SHAPE), SlidingWindowSpec(**SHAPE, sliding_window=64)


def uniform(*specs):
    return UniformTypeKVCacheSpecs(block_size=16, kv_cache_specs={f"layer {number}": spec for number, spec in enumerate(specs)})


def config(policy="recompute", loads=True, stores=True, prefill=1, decode=1, **extra):
    return types.SimpleNamespace(
        kv_transfer_config=types.SimpleNamespace(kv_load_failure_policy=policy, is_kv_consumer=loads, is_kv_producer=stores, kv_connector_extra_config=extra),
        parallel_config=types.SimpleNamespace(prefill_context_parallel_size=prefill, decode_context_parallel_size=decode),
        cache_config=types.SimpleNamespace(block_size=16))


def caches(*specs):
    return types.SimpleNamespace(num_blocks=40, kv_cache_groups=[types.SimpleNamespace(kv_cache_spec=spec) for spec in specs])


class CallsCase(unittest.TestCase):
    def setUp(self):
        for name in ("SchedulerSide", "WorkerSide"):
            patch = mock.patch.object(vllm_connector, name)
            setattr(self, name, patch.start())
            self.addCleanup(patch.stop)

    def scheduler(self, **options):
        return FarpageConnector(config(**options), KVConnectorRole.SCHEDULER, caches(FULL))

    def worker(self, **options):
        connector = FarpageConnector(config(**options), KVConnectorRole.WORKER, caches(FULL))
        with mock.patch.multiple(vllm_connector, cache_blocks=mock.DEFAULT, space_of=mock.DEFAULT):
            connector.register_kv_caches({})
        return connector


class RefusalsTest(CallsCase):
    def test_layers_that_do_not_keep_every_token(self):
        for specs in ((FULL,), (uniform(FULL, FULL),)):
            vllm_connector.refuse_unfit(config(), caches(*specs))
        for specs in ((WINDOW,), (FULL, FULL), (uniform(FULL, WINDOW),), ()):
            with self.assertRaisesRegex(farpage.InvalidError, "layers of other kinds"):
                vllm_connector.refuse_unfit(config(), caches(*specs))

    def test_context_parallelism(self):
        for sizes in ({"prefill": 2}, {"decode": 2}):
            with self.assertRaisesRegex(farpage.InvalidError, "context parallelism"):
                self.scheduler(**sizes)

    def test_a_policy_that_fails_requests(self):
        with self.assertRaisesRegex(farpage.InvalidError, '"kv_load_failure_policy": "recompute"'):
            self.scheduler(policy="fail")

    def test_a_release_that_was_not_tested(self):
        with mock.patch.object(vllm_connector.vllm, "__version__", "0.99.0"):
            with self.assertRaisesRegex(farpage.InvalidError, "0.99.0 was not tested"):
                self.scheduler()
            self.scheduler(allow_untested=True)


class SchedulerTest(CallsCase):
    def test_its_side_knows_the_role_and_the_form(self):
        for pages in ("block", "layer"):
            for loads, stores in ((True, True), (True, False), (False, True)):
                self.scheduler(loads=loads, stores=stores, pages=pages)
                self.assertEqual(self.SchedulerSide.call_args.kwargs, {"loads": loads, "stores": stores, "loads_ahead": pages == "block"})
        self.WorkerSide.assert_not_called()

    def test_a_load_is_beside_the_steps_unless_layers_come_within_one(self):
        for pages, answers in (("block", [(None, False), (0, False), (32, True)]), ("layer", [(None, False), (0, False), (32, False)])):
            connector = self.scheduler(pages=pages)
            for tokens, is_async in answers:
                connector._scheduler.matched.return_value = tokens
                self.assertEqual(connector.get_num_new_matched_tokens("request", 16), (tokens, is_async))
            connector._scheduler.matched.assert_called_with("request", 16)
            self.assertEqual(FarpageConnector.requires_piecewise_for_cudagraph({"pages": pages}), pages == "layer")

    def test_shards_of_all_workers(self):
        connector = self.scheduler()
        connector.set_xfer_handshake_metadata_pp_aware({(0, 0): FarpageHandshake("one"), (0, 1): mock.Mock(), (1, 0): FarpageHandshake("two")})
        self.assertEqual(list(connector._scheduler.set_shards.call_args.args[0]), ["one", "two"])

    def test_what_ended_and_what_failed_of_a_step(self):
        connector = self.scheduler()
        loads = {"r": Load(2, 0.5)}
        for recving, invalid, told, wanted in (({"r"}, {7}, FarpageLoads(loads), ({"r"}, {7}, loads)), (None, None, None, ((), set(), {}))):
            connector.update_connector_output(types.SimpleNamespace(finished_recving=recving, invalid_block_ids=invalid, kv_connector_worker_meta=told))
            connector._scheduler.ended.assert_called_with(*wanted)

    def test_whether_blocks_of_a_finished_request_are_kept(self):
        connector = self.scheduler()
        for keeps in (True, False):
            connector._scheduler.finished.return_value = keeps
            self.assertEqual(connector.request_finished("request", [7, 5]), (keeps, None))
        connector._scheduler.finished.assert_called_with("request", [7, 5])

    def test_no_exception_of_its_side_reaches_vllm(self):
        connector, broken = self.scheduler(), mock.Mock(side_effect=RuntimeError("anything"))
        connector._scheduler.configure_mock(begin=broken, matched=broken, allocated=broken, plan=broken, ended=broken, finished=broken, reset=broken,
                                            set_shards=broken, close=broken)
        connector._kv_cache_manager = mock.Mock()
        calls = {"on_new_request": (("request",), None), "get_num_new_matched_tokens": (("request", 0), (0, False)),
                 "update_state_after_alloc": (("request", mock.MagicMock(), 16), None), "build_connector_meta": ((mock.Mock(),), FarpageMetadata(Plan())),
                 "update_connector_output": ((mock.Mock(),), None), "request_finished": (("request", [7]), (False, None)), "reset_cache": ((), False),
                 "set_xfer_handshake_metadata_pp_aware": (({},), None), "shutdown": ((), None)}
        with self.assertLogs("farpage", "ERROR") as said:
            for name, (arguments, answer) in calls.items():
                self.assertEqual(getattr(connector, name)(*arguments), answer, name)
        self.assertEqual(len(said.output), len(calls), said.output)

    def test_requests_resets_and_the_end(self):
        connector = self.scheduler()
        side = connector._scheduler
        connector.on_new_request("request")
        side.begin.assert_called_once_with("request")
        connector.update_state_after_alloc("request", types.SimpleNamespace(get_block_ids=lambda: ([7, 5],)), 32)
        side.allocated.assert_called_once_with("request", [7, 5], 32)
        self.assertTrue(connector.reset_cache())
        side.reset.assert_called_once_with()
        connector.shutdown()
        side.close.assert_called_once_with()


class WorkerTest(CallsCase):
    def test_its_side_knows_the_role(self):
        for loads, stores in ((True, True), (True, False), (False, True)):
            self.worker(loads=loads, stores=stores)
            self.assertEqual(self.WorkerSide.call_args.kwargs, {"loads": loads, "stores": stores})
        self.SchedulerSide.assert_not_called()

    def test_before_it_has_a_cache_it_does_nothing(self):
        connector = FarpageConnector(config(), KVConnectorRole.WORKER, caches(FULL))
        connector.start_load_kv(None)
        connector.wait_for_layer_load("layer 0")
        connector.wait_for_save()
        self.assertEqual((connector.get_handshake_metadata(), connector.get_finished(set()), connector.get_block_ids_with_load_errors(),
                          connector.get_kv_connector_stats(), connector.build_connector_worker_meta()), (None, (None, None), set(), None, None))
        connector.shutdown()

    def test_a_step(self):
        connector = self.worker()
        side = connector._worker
        connector.bind_connector_metadata(FarpageMetadata("plan"))
        connector.start_load_kv(None)
        connector.wait_for_layer_load("layer 0")
        connector.wait_for_save()
        self.assertEqual(side.method_calls, [mock.call.start("plan"), mock.call.wait_layer("layer 0"), mock.call.save("plan")])
        self.assertIs(connector.get_finished(set()), side.ended.return_value)
        self.assertIs(connector.get_block_ids_with_load_errors(), side.take_failed.return_value)
        self.assertIs(connector.get_handshake_metadata().shard, side.shard)
        connector.shutdown()
        side.close.assert_called_once_with()
        connector.shutdown()  # which does no harm
        side.close.assert_called_once_with()

    def test_loads_of_workers_are_as_slow_as_the_slowest(self):
        connector = self.worker()
        connector._worker.take_measured.return_value = {}
        self.assertIsNone(connector.build_connector_worker_meta())
        told = []
        for loads in ({"a": Load(3, 0.5)}, {"b": Load(1, 0.1), "a": Load(2, 0.25)}, {"a": Load(4, 0.75)}):
            connector._worker.take_measured.return_value = loads
            told.append(connector.build_connector_worker_meta())
        self.assertEqual(told[0].aggregate(told[1]).aggregate(told[2]), FarpageLoads({"a": Load(2, 0.75), "b": Load(1, 0.1)}))

    def test_vllm_hears_of_each_block_once(self):
        """From both sides: vLLM adds up what it hears."""
        whole = FarpageConnector.build_kv_connector_stats()
        self.assertTrue(whole.is_empty())
        for connector, side in ((self.worker(), self.WorkerSide), (self.scheduler(), self.SchedulerSide)):
            (figures,) = (each for each in side.call_args.args if isinstance(each, Figures))
            self.assertIsNone(connector.get_kv_connector_stats())
            for pages in (3, 2):
                figures.add("pages", "ready", pages)
                figures.add("seconds", "load", 0.25)
                whole.aggregate(FarpageConnector.build_kv_connector_stats(connector.get_kv_connector_stats().to_dict()))
            self.assertIsNone(connector.get_kv_connector_stats())
        self.assertEqual(whole.reduce(), {"vllm:farpage_pages:('ready',)": 10, "vllm:farpage_seconds:('load',)_count": 4, "vllm:farpage_seconds:('load',)_sum": 1.0})


if __name__ == "__main__":
    unittest.main()
