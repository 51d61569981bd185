"""vLLM's own parser of arguments and its factories take the commands of docs/engines.md, and the
files that these name."""

import os
import sys
import unittest

os.environ["VLLM_TARGET_DEVICE"] = "cpu"
from documented import SOURCE, command, configuration  # noqa: E402

sys.path.insert(0, str(SOURCE / "python"))
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402
from vllm.v1.kv_offload.factory import OffloadingSpecFactory  # noqa: E402
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory  # noqa: E402
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec  # noqa: E402

from farpage.engines.vllm import FarpageTier  # noqa: E402
from farpage.engines.vllm_connector import FarpageConnector  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
