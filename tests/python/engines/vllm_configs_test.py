"""vLLM's own parser of arguments and its factories take the commands of docs/engines.md, and the
files that these name; and what a page's namespace takes from vLLM's configuration."""

import dataclasses
import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

os.environ.update(VLLM_TARGET_DEVICE="cpu", VLLM_LOGGING_LEVEL="ERROR")
from documented import SOURCE, command, configuration  # noqa: E402

sys.path.insert(0, str(SOURCE / "python"))
import torch  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402
from vllm.v1.kv_cache_interface import (  # noqa: E402
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
)
from vllm.v1.kv_offload.factory import OffloadingSpecFactory  # noqa: E402
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory  # noqa: E402
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec  # noqa: E402

from farpage.engines import vllm_facts  # noqa: E402
from farpage.engines.vllm import FarpageTier  # noqa: E402
from farpage.engines.vllm_connector import FarpageConnector  # noqa: E402
from farpage.engines.vllm_facts import (  # noqa: E402
    CACHE,
    DRAFT,
    MODEL,
    config_of_maker,
    engine_facts,
    specs_of_maker,
)

TINY = {"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "architectures": ["LlamaForCausalLM"]}
THETA = {"rope_parameters": {"rope_type": "default", "rope_theta": 123.0}}
LONG = {"rope_parameters": {"rope_type": "longrope", "rope_theta": 123.0, "short_factor": [1.0] * 16, "long_factor": [2.0] * 16, "factor": 2.0,
                            "original_max_position_embeddings": 1024}}
AGAIN = """
import sys
from vllm.engine.arg_utils import EngineArgs
sys.path.insert(0, sys.argv[2])
from farpage.engines.vllm_facts import engine_facts
arguments = EngineArgs(model=sys.argv[1], skip_tokenizer_init=True, dtype="bfloat16")
print(engine_facts(arguments.create_engine_config()))
"""


class VllmConfigsTest(unittest.TestCase):
    def parsed(self, file):
        """What vLLM makes of the command with this file."""
        arguments = command(f'vllm serve MODEL --kv-transfer-config "$(cat configs/engines/{file})"')[3:]
        any_folder = ["--model", str(SOURCE)]
        parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
        transfer = EngineArgs.from_cli_args(parser.parse_args([*any_folder, *arguments])).kv_transfer_config
        self.assertEqual(transfer.kv_connector_extra_config, configuration(file)["kv_connector_extra_config"])
        self.assertEqual((transfer.kv_role, transfer.kv_load_failure_policy), ("kv_both", "recompute"))
        return transfer

    def test_the_tier_is_what_vllm_makes_of_its_file(self):
        transfer = self.parsed("vllm.json")
        self.assertEqual(KVConnectorFactory.get_connector_class(transfer).__name__, "OffloadingConnector")
        self.assertIs(OffloadingSpecFactory.get_spec_cls(transfer.kv_connector_extra_config), TieringOffloadingSpec)
        (tier,) = transfer.kv_connector_extra_config["secondary_tiers"]
        self.assertIs(SecondaryTierFactory.get_tier_class(tier), FarpageTier)

    def test_the_connector_is_what_vllm_makes_of_its_file(self):
        self.assertIs(KVConnectorFactory.get_connector_class(self.parsed("vllm-connector.json")), FarpageConnector)


class VllmFactsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from transformers import LlamaConfig

        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = folder.name
        LlamaConfig(**TINY).save_pretrained(cls.model)

    def config(self, **options):
        return EngineArgs(**{"model": self.model, "skip_tokenizer_init": True, "dtype": "bfloat16", **options}).create_engine_config()

    def facts(self, **options):
        return engine_facts(self.config(**options))

    def test_overrides_count_and_what_changes_no_page_does_not(self):
        facts = self.facts()
        self.assertEqual(self.facts(max_model_len=512, max_num_seqs=3, seed=7, served_model_name="s", generation_config="vllm"), facts)
        others = [self.facts(**other) for other in ({"hf_overrides": THETA}, {"dtype": "float16"}, {"kv_cache_dtype": "fp8_e5m2"}, {"load_format": "dummy"},
                                                     {"attention_backend": "FLASHINFER"}, {"attention_config": {"indexer_kv_dtype": "fp8"}})]
        for place, other in enumerate(others):
            self.assertNotIn(other, [facts, *others[:place]])

    def test_the_longest_request_counts_where_factors_follow_it(self):
        one, two = (self.facts(hf_overrides=LONG, max_model_len=length) for length in (512, 2048))
        self.assertNotEqual(one, two)

    def test_each_field_counts(self):
        config = self.config()
        config.speculative_config = types.SimpleNamespace()
        seen = [engine_facts(config)]
        for source, names in ((config.model_config, MODEL), (config.cache_config, CACHE), (config.speculative_config, DRAFT),
                              (config.model_config, ("revision",)), (config.load_config, ("download_dir",))):
            for name in names:
                object.__setattr__(source, name, "other")
                self.assertNotIn(engine_facts(config), seen, name)
                seen.append(engine_facts(config))

    def test_what_chooses_the_backend_of_attention_counts(self):
        facts = [self.facts()]
        for name in ("VLLM_MLA_DISABLE", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT"):
            with mock.patch.dict(os.environ, {name: "1"}):
                facts.append(self.facts())
        with mock.patch.object(vllm_facts.current_platform, "get_device_capability", lambda: (9, 0)):
            facts.append(self.facts())
        self.assertEqual(len({str(each) for each in facts}), 4)

    def test_another_process_has_the_same(self):
        there = subprocess.run([sys.executable, "-c", AGAIN, self.model, str(SOURCE / "python")], env={**os.environ, "PYTHONHASHSEED": "7"},
                               stdout=subprocess.PIPE, text=True, timeout=200, check=True).stdout
        self.assertEqual(there.splitlines()[-1], str(self.facts()))

    def test_a_tier_has_the_configuration_of_the_scheduler_that_makes_it(self):
        def make(vllm_config):
            return (lambda: config_of_maker())()

        config = self.config()
        self.assertIs(make(config), config)
        with self.assertLogs("farpage", "WARNING"):
            self.assertIsNone(make(None))

    def test_a_tier_has_the_specs_of_the_scheduler_that_makes_it(self):
        def make(kv_cache_config):
            return (lambda: specs_of_maker())()

        spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=64, dtype=torch.bfloat16)
        # As B12X has K and V, in as many bytes.
        packed = dataclasses.replace(spec, num_head_slots=2, state_content_bytes=2 * 64 * 2)
        self.assertEqual((packed.num_heads, packed.page_size_bytes), (spec.num_heads, spec.page_size_bytes))
        caches = [KVCacheConfig(1, [], [KVCacheGroupSpec(["l"], each)]) for each in (spec, packed, spec)]
        self.assertEqual(len({make(each) for each in caches}), 2)
        self.assertEqual(make(None), "")


if __name__ == "__main__":
    unittest.main()
