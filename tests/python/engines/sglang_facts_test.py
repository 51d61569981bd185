"""What tells pages of SGLang's apart, of its own classes: each fact that decides what is in a page.
Runs in an environment with SGLang (scripts/test-engines)."""

import pathlib
import tempfile
import types
import unittest
from unittest import mock

import torch
from sglang_engine import PoolName, device_pool, host_pool

import farpage
from farpage.engines import sglang_facts

SERVER = {"model_path": "m", "revision": "1", "dtype": "auto", "quantization": "None", "quantization_param_path": "p", "modelopt_quant": "",
          "kv_cache_dtype": "bfloat16", "load_format": "auto",
          "json_model_override_args": "{}", "speculative_draft_model_path": "d", "speculative_draft_model_revision": "1", "download_dir": ""}
RANKS = {"tp_size": 2, "tp_rank": 1, "pp_size": 2, "pp_rank": 1, "attn_cp_size": 2, "attn_cp_rank": 1, "dcp_size": 2, "dcp_rank": 1}
CONFIG = {**dict.fromkeys(RANKS, 0), "is_mla_model": False, "model_name": "m"}
POOL = {"layout": "page_first", "dtype": torch.bfloat16, "page_size": 64, "layer_num": 2, "head_num": 2, "head_dim": 64, "kv_cache_dim": 0,
        "storage_format_tag": ""}
OTHER_POOLS = {"layout": "layer_first", "dtype": torch.float16, "page_size": 128, "logical_page_size": 32, "layer_num": 3, "head_num": 3,
               "head_dim": 128, "kv_cache_dim": 1, "storage_format_tag": "x"}


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
        return sglang_facts.logical_dtype(types.SimpleNamespace(**{**POOL, **pool}), said, server)

    def test_releases_are_named_exactly(self):
        for version in ("0.5.22", "0.5.24", "0.5.23.post1", "0.6.0"):
            with self.subTest(version), self.assertRaisesRegex(farpage.InvalidError, "allow_untested"):
                sglang_facts.check_version(version, False)
            sglang_facts.check_version(version, True)
        sglang_facts.check_version("0.5.23", False)


if __name__ == "__main__":
    unittest.main()
