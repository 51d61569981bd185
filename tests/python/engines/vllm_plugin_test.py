"""Farpage under vLLM by its short names, as an installed package gives them: a distribution whose
entry points are those of pyproject.toml."""

import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
GROUP = "vllm.general_plugins"
# A process of its own, with that distribution in its path. It loads the plugins twice, which must
# do no harm.
USE = """
import vllm.plugins
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
try:
    print("before", SecondaryTierFactory.get_tier_class({"type": "farpage"}))
except ValueError as error:
    print("before", error)
for _ in range(2):
    vllm.plugins.load_general_plugins()
    vllm.plugins.plugins_loaded = False
print("tier", SecondaryTierFactory.get_tier_class({"type": "farpage"}))
print("connector", "FarpageConnector" in KVConnectorFactory._registry)
"""


class VllmPluginTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def install(self):
        entries = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][GROUP]
        folder = self.folder / "farpage-0.0.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: farpage\nVersion: 0.0.0\n", encoding="utf-8")
        (folder / "entry_points.txt").write_text(f"[{GROUP}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items()), encoding="utf-8")

    def test_an_installed_package_is_known_by_its_short_names(self):
        self.install()
        environment = {**os.environ, "VLLM_TARGET_DEVICE": "cpu", "PYTHONPATH": os.pathsep.join([str(self.folder), str(SOURCE / "python")])}
        said = subprocess.run([sys.executable, "-c", USE], env=environment, cwd=self.folder, capture_output=True, text=True, timeout=200, check=False)
        self.assertIn("before Unknown secondary tier type: 'farpage'", said.stdout, said.stderr)
        self.assertIn("tier <class 'farpage.engines.vllm.FarpageTier'>", said.stdout, said.stderr)
        self.assertIn("connector True", said.stdout, said.stderr)


if __name__ == "__main__":
    unittest.main()
