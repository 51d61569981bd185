"""docs/operations.md does what it prints: a fleet of three grows to eight, and is upgraded."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

from etcd import free_ports
from program import PROGRAM, SOURCE, Case, skip_or_fail, wait_until

SECTIONS = (("operations.md", "An etcd"), ("security.md", "Tokens and certificates"), ("operations.md", "A fleet of three"),
            ("operations.md", "A fleet that grows"), ("operations.md", "An upgrade"))
# Of another fleet, and of nodes that are upgraded by hand.
LEFT_OUT = ("for node in a:7021", "kill -HUP", "farpage fleet status")
PORTS = (2379, 2380, *range(7031, 7039))
NODES = "abcdefgh"
LIMIT_S = 200
# A slow disk and a slow processor are not what is tested.
PATIENT_ETCD = {"ETCDCTL_COMMAND_TIMEOUT": "100s", "ETCDCTL_DIAL_TIMEOUT": "100s", "ETCD_UNSAFE_NO_FSYNC": "true", "ETCD_BCRYPT_COST": "4"}


def blocks(document, title):
    text = (SOURCE / "docs" / document).read_text(encoding="utf-8")
    section = re.search(rf"^## {title}\n(.*?)(?=^##+ |\Z)", text, re.MULTILINE | re.DOTALL).group(1)
    return re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


class OperationsTest(Case):
    def here(self, commands):
        """On free ports, with fewer pages, and with nodes whose metrics nobody asks for."""
        ports = dict(zip(PORTS, free_ports(len(PORTS))))
        for port, free in ports.items():
            commands = re.sub(rf"\b{port}\b", str(free), commands)
        self.environment["ETCDCTL_ENDPOINTS"] = f"http://127.0.0.1:{ports[2379]}"
        self.environment.update(PATIENT_ETCD)
        # The load lasts until all nodes serve.
        commands = commands.replace("wait $load", "kill -0 $load\nwait $load")
        return commands.replace("127.0.0.1:1$port", "127.0.0.1:0").replace("--requests 200", "--requests 20")

    def run_as_printed(self, commands):
        path = f"{pathlib.Path(PROGRAM).parent}:{os.environ['PATH']}"
        said, errors = self.folder / "said.txt", self.folder / "errors.txt"
        # Files, which the shell's nodes keep open as well.
        with open(said, "wb") as out, open(errors, "wb") as err:
            shell = subprocess.Popen(["bash", "-euc", commands], cwd=self.folder, env={**self.environment, "PATH": path},
                                     start_new_session=True, stdout=out, stderr=err)
        self.addCleanup(self.end_all, shell)
        self.assertTrue(wait_until(lambda: shell.poll() is not None, LIMIT_S), errors.read_text(encoding="utf-8"))
        self.assertEqual(shell.returncode, 0, errors.read_text(encoding="utf-8"))
        return said.read_text(encoding="utf-8")

    def end_all(self, shell):
        """What it has started, before the folder goes that they write to."""
        def has_ended(number=0):
            shell.poll()
            try:
                os.killpg(shell.pid, number)
            except ProcessLookupError:
                return True
            return False

        if not has_ended(signal.SIGTERM) and not wait_until(has_ended):
            has_ended(signal.SIGKILL)
            wait_until(has_ended)

    def test_a_fleet_grows_under_load_and_is_upgraded(self):
        if shutil.which("etcd") is None or shutil.which("etcdctl") is None:
            skip_or_fail(self, "there is no etcd: apt-get install etcd-server etcd-client")
        commands = [block for section in SECTIONS for block in blocks(*section) if not block.startswith(LEFT_OUT)]
        self.assertEqual(len(commands), 7)
        said = self.run_as_printed(self.here("\n".join(commands)))
        self.assertEqual(re.findall(r"^([a-h]) +serving .* 0  tcp://", said, re.MULTILINE), list(NODES))
        self.assertIn(f"restarted {', '.join(NODES)}: all serve, and no page is left to fill\n", said)
        load = (self.folder / "load.txt").read_text(encoding="utf-8")
        self.assertRegex(load, r"\n *ready +[1-9]")
        self.assertRegex(load, r"\nwrong bytes +0 in [1-9]")
        self.assertNotRegex(load, "recompute: ")


if __name__ == "__main__":
    unittest.main()
