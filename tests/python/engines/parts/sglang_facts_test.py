"""What tells pages of SGLang's apart, of its own classes: each fact that decides what is in a page.
Runs in an environment with SGLang (scripts/test-engines)."""

import os
import pathlib
import tempfile
import types
import unittest
from unittest import mock

import torch
from sglang_engine import MambaPoolHost, MambaStateBufferInfo, PoolName, device_pool, host_pool
from sglang.srt.environ import envs
from sglang.srt.server_args import ServerArgs

import farpage
from farpage.engines import sglang_facts

SERVER = {"model_path": "m", "revision": "1", "dtype": "auto", "quantization": "None", "quantization_param_path": "p", "modelopt_quant": "",
          "kv_cache_dtype": "bfloat16", "load_format": "auto",
          "json_model_override_args": "{}", "qsa_indexer_dtype": "auto", "enable_deepseek_v4_fp4_indexer": "False", "modelopt_checkpoint_restore_path": "",
          "speculative_algorithm": "EAGLE", "speculative_draft_model_path": "d", "speculative_draft_model_revision": "1",
          "speculative_draft_load_format": "auto", "speculative_draft_model_quantization": "", "speculative_draft_kv_cache_dtype": "",
          "speculative_draft_window_size": "", "speculative_draft_sink_size": "", "uno_lora_path": "", "download_dir": ""}
RANKS = {"tp_size": 2, "tp_rank": 1, "pp_size": 2, "pp_rank": 1, "attn_cp_size": 2, "attn_cp_rank": 1, "dcp_size": 2, "dcp_rank": 1}
CONFIG = {**dict.fromkeys(RANKS, 0), "is_mla_model": False, "model_name": "m"}
POOL = {"layout": "page_first", "dtype": torch.bfloat16, "page_size": 64, "layer_num": 2, "head_num": 2, "head_dim": 64, "kv_cache_dim": 0,
        "storage_format_tag": ""}
OTHER_POOLS = {"layout": "layer_first", "dtype": torch.float16, "page_size": 128, "logical_page_size": 32, "layer_num": 3, "head_num": 3,
               "head_dim": 128, "v_head_dim": 3, "head_group_num": 2, "kv_cache_dim": 1, "kv_lora_rank": 8, "qk_rope_head_dim": 8,
               "storage_format_tag": "x", "indexer_dtype": torch.float16, "row_bytes": 9, "item_bytes": 9, "ring_size": 3, "state_page_bytes": 9,
               "num_mamba_layers": 3, "conv_dtype": torch.float16, "temporal_dtype": torch.float16, "conv_state_shapes": [(3, 2)],
               "temporal_state_shape": (2, 3), "slot_state_buffers": [torch.zeros(4, 3)],
               "_buffer_infos": [types.SimpleNamespace(buffers=types.SimpleNamespace(layout="hnd"))]}


class SglangFactsTest(unittest.TestCase):
    def space(self, config=(), pool=(), server=SERVER, name="kv", dtype="", salt="", pool_of=None):
        pool = pool_of or types.SimpleNamespace(**{**POOL, **dict(pool)})
        with mock.patch.object(sglang_facts, "server_facts", lambda: server):
            return sglang_facts.space_of(types.SimpleNamespace(**{**CONFIG, **dict(config)}), name, pool, dtype, salt).namespace

    def test_each_fact_counts(self):
        others = {f"server's {fact}": {"server": {**SERVER, fact: "other"}} for fact in SERVER if fact != "download_dir"}
        others |= {fact: {"config": {fact: value}} for fact, value in {**RANKS, "is_mla_model": True, "model_name": "n"}.items()}
        others |= {f"pool's {fact}": {"pool": {fact: value}} for fact, value in OTHER_POOLS.items()}
        others |= {"pool": {"name": "draft"}, "format": {"dtype": "fp8_e4m3"}, "salt": {"salt": "x"}, "nothing": {}}
        spaces = {}
        for fact, other in others.items():
            spaces.setdefault(self.space(**other), []).append(fact)
        with mock.patch.object(sglang_facts.sglang, "__version__", "0.5.99"):
            spaces.setdefault(self.space(), []).append("version")
        self.assertEqual([facts for facts in spaces.values() if len(facts) > 1], [])
        self.assertEqual(self.space(), self.space())

    def test_states_of_mamba_in_other_types_and_shapes_of_the_same_length_are_others(self):
        def pool(temporal=torch.bfloat16, conv=torch.bfloat16, side=torch.bfloat16, shape=(2, 8, 16), conv_shape=(24, 3), side_rows=5):
            state = MambaStateBufferInfo(temporal=torch.zeros((3, 16, *shape), dtype=temporal), conv=(torch.zeros((3, 16, *conv_shape), dtype=conv),),
                                         extra_checkpoint_buffers=(torch.zeros((16, side_rows), dtype=side),))
            return MambaPoolHost(state, 2.0, 0, device_capacity=16, pin_memory=False, device="cpu", layout="page_first")

        f16 = torch.float16
        pools = [pool(), pool(temporal=f16), pool(conv=f16), pool(side=f16), pool(shape=(4, 4, 16)), pool(conv_shape=(36, 2)), pool(side_rows=6)]
        self.assertEqual(len({each.size_per_token for each in pools[:-1]}), 1)
        self.assertEqual(len({self.space(pool_of=each, name=PoolName.MAMBA.value) for each in pools}), len(pools))
        # How many states a server has room for is another matter.
        self.assertEqual(self.space(pool_of=pool()), self.space(pool_of=MambaPoolHost(
            pools[0].buffer_info, 3.0, 0, device_capacity=16, pin_memory=False, device="cpu", layout="page_first")))

    def test_a_drafts_format_is_its_own(self):
        """SGLang keeps both formats of fp8 as uint8; a draft may have another than its target."""
        server = {**SERVER, "kv_cache_dtype": "bfloat16", "speculative_draft_kv_cache_dtype": "fp8_e5m2"}
        as_bytes = types.SimpleNamespace(dtype=torch.uint8)
        for name, said, wanted in (("draft", "", "fp8_e5m2"), ("draft_swa", "fp8_e4m3", "fp8_e5m2"), ("kv", "", "bfloat16"), ("kv", "fp8_e4m3", "fp8_e4m3")):
            self.assertEqual(sglang_facts.logical_dtype(name, as_bytes, said, server), f"{wanted} in torch.uint8")
        # Without one of its own it follows the target.
        self.assertEqual(sglang_facts.logical_dtype("draft", as_bytes, "fp8_e4m3", SERVER), "fp8_e4m3 in torch.uint8")

    def test_what_fp8_means_on_this_hardware_counts(self):
        before = self.space()
        with mock.patch.object(sglang_facts, "fp8_dtype", torch.float8_e4m3fnuz):
            self.assertNotEqual(self.space(), before)
        with mock.patch.object(torch.version, "hip", "6.4"):
            self.assertNotEqual(self.space(), before)

    def test_settings_that_sglang_takes_from_the_environment_count(self):
        spaces = [self.space()]
        for name in ("SGLANG_DSV4_COMPRESS_STATE_DTYPE", "SGLANG_OPT_USE_ONLINE_COMPRESS", "SGLANG_HIP_DSV41_INDEX_K_PAGE8"):
            with mock.patch.dict(os.environ, {name: "1"}):
                spaces.append(self.space())
        self.assertEqual(len(set(spaces)), 4)

    def test_weights_of_a_draft_of_other_bytes_at_the_same_path_are_others(self):
        for fact in ("speculative_draft_model_path", "modelopt_checkpoint_restore_path", "uno_lora_path"):
            with self.subTest(fact), tempfile.TemporaryDirectory() as folder:
                weights = pathlib.Path(folder) / "model.safetensors"
                spaces = []
                for data in (b"one", b"one", b"two"):
                    weights.write_bytes(data)
                    spaces.append(self.space(server={**SERVER, fact: folder}))
                self.assertEqual(spaces[0], spaces[1])
                self.assertNotEqual(spaces[0], spaces[2])

    def test_of_a_drafts_id_the_commit_of_its_revision_counts(self):
        spaces = []
        for commit in ("c1", "c2"):
            with tempfile.TemporaryDirectory() as folder:
                refs = pathlib.Path(folder) / "models--d/refs"
                refs.mkdir(parents=True)
                (refs / "1").write_text(commit)
                spaces.append(self.space(server={**SERVER, "download_dir": folder}))
        self.assertNotEqual(*spaces)

    def test_all_facts_are_sglangs_own_words(self):
        """Of a word that SGLang does not know every server has the same value."""
        known = set(ServerArgs.__struct_fields__)
        self.assertEqual(set(sglang_facts.SERVER_FACTS) - known, set())
        for name in sglang_facts.ENVIRONMENT:
            self.assertTrue(hasattr(envs, name), name)

    def test_facts_are_those_of_sglangs_server(self):
        arguments = types.SimpleNamespace(**SERVER)
        with mock.patch("sglang.srt.runtime_context.get_server_args", lambda: arguments):
            self.assertEqual(sglang_facts.server_facts(), SERVER)
            arguments.revision = None
            self.assertEqual(sglang_facts.server_facts(), {**SERVER, "revision": ""})

    def test_scales_of_other_bytes_at_the_same_path_are_others(self):
        with tempfile.NamedTemporaryFile() as file:
            server = {**SERVER, "quantization_param_path": file.name}
            before = self.space(server=server)
            file.write(b"{}")
            file.flush()
            self.assertNotEqual(self.space(server=server), before)

    def test_of_a_models_id_the_commit_counts_wherever_it_is(self):
        spaces = []
        for commit in ("c1", "c1", "c2"):
            with tempfile.TemporaryDirectory() as folder:
                refs = pathlib.Path(folder) / "models--m/refs"
                refs.mkdir(parents=True)
                (refs / "1").write_text(commit)
                spaces.append(self.space(server={**SERVER, "download_dir": folder}))
        self.assertEqual(spaces[0], spaces[1])
        self.assertNotEqual(spaces[0], spaces[2])

    def test_ranks_of_tensor_parallelism_share_what_is_the_same_in_all_of_them(self):
        def count(name="kv", pool=None, is_mla_model=True):
            config = {"is_mla_model": is_mla_model}
            return len({self.space({**config, "tp_rank": rank}, name=name, pool_of=pool) for rank in (0, 1)})

        self.assertEqual((count(), count("indexer")), (1, 1))
        self.assertEqual((count(is_mla_model=False), count(PoolName.MAMBA.value)), (2, 2))
        self.assertEqual(count("draft", host_pool(device_pool()[0], "page_first")), 2)
        keys_only = mock.Mock(spec=[*POOL], __class__=sglang_facts.MHATokenToKOnlyPoolHost, **POOL)
        self.assertEqual(count("draft", keys_only), 2)

    def test_what_the_operator_says_is_the_format(self):
        e4m3, e5m2 = ({**SERVER, "kv_cache_dtype": name} for name in ("fp8_e4m3", "fp8_e5m2"))
        as_bytes = {"dtype": torch.uint8}
        self.assertEqual(self.dtype(as_bytes, e4m3), "fp8_e4m3 in torch.uint8")
        self.assertEqual(self.dtype(as_bytes, e4m3, said="fp8_e5m2"), "fp8_e5m2 in torch.uint8")
        self.assertEqual((self.dtype({}, {}), self.dtype({}, e5m2)), ("torch.bfloat16 in torch.bfloat16", "fp8_e5m2 in torch.bfloat16"))
        with self.assertRaisesRegex(farpage.InvalidError, 'set "dtype"'):
            self.dtype(as_bytes, {})

    def dtype(self, pool, server, said=""):
        return sglang_facts.logical_dtype("kv", types.SimpleNamespace(**{**POOL, **pool}), said, server)

    def test_releases_are_named_exactly(self):
        for version in ("0.5.22", "0.5.24", "0.5.23.post1", "0.6.0"):
            with self.subTest(version), self.assertRaisesRegex(farpage.InvalidError, "allow_untested"):
                sglang_facts.check_version(version, False)
            sglang_facts.check_version(version, True)
        sglang_facts.check_version("0.5.23", False)


if __name__ == "__main__":
    unittest.main()
