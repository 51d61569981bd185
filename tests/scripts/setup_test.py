"""scripts/setup, with stand-ins for dpkg, apt-get, id and sudo that install nothing."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "setup"


class SetupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        for tool in ("bash", "env", "cat"):
            (self.tools / tool).symlink_to(shutil.which(tool))
        self.stand_in("apt-get", f'echo "apt-get $* $DEBIAN_FRONTEND" >>{self.log}')
        self.stand_in("id", "echo 0")
        self.installed()

    def stand_in(self, name, text):
        path = self.tools / name
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)

    def installed(self, *packages):
        names = "|".join(packages) or "none"
        self.stand_in("dpkg-query", f'case "${{@: -1}}" in {names}) echo -n installed ;; *) exit 1 ;; esac')

    def setup_with(self, *arguments):
        return subprocess.run(
            [SCRIPT, *arguments], env={"PATH": str(self.tools)}, capture_output=True, text=True
        )

    def calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_print_names_what_is_missing_and_installs_nothing(self):
        printed = self.setup_with("test", "--print")
        self.assertEqual(printed.returncode, 0, printed)
        packages = printed.stdout.split()
        for package in ("g++", "libboost1.81-dev", "libgtest-dev", "clang-tidy-14"):
            self.assertIn(package, packages)
        self.assertNotIn("libgtest-dev", self.setup_with("build", "--print").stdout.split())
        self.assertEqual(self.calls(), [])

    def test_the_peers_of_the_benchmarks_come_only_when_asked_for(self):
        peers = {"redis-server", "redis-tools", "iperf3", "ucx-utils"}
        packages = set(self.setup_with("bench", "--print").stdout.split())
        self.assertLessEqual(peers | {"g++"}, packages)
        self.assertNotIn("libgtest-dev", packages)
        for group in ("build", "test"):
            self.assertTrue(peers.isdisjoint(self.setup_with(group, "--print").stdout.split()))

    def test_what_checks_packages_comes_only_when_asked_for(self):
        tools = {"debootstrap", "lintian"}
        self.assertLessEqual(tools | {"g++"}, set(self.setup_with("packages", "--print").stdout.split()))
        for group in ("build", "test"):
            self.assertTrue(tools.isdisjoint(self.setup_with(group, "--print").stdout.split()))

    def test_the_machine_with_rdma_devices_comes_only_when_asked_for(self):
        machine = {"qemu-system-x86", "kmod", "libibverbs-dev", "perftest"}
        self.assertLessEqual(machine | {"g++"}, set(self.setup_with("softroce", "--print").stdout.split()))
        for group in ("build", "test", "bench"):
            self.assertNotIn("qemu-system-x86", self.setup_with(group, "--print").stdout.split())

    def test_the_recorder_of_models_comes_only_when_asked_for(self):
        self.assertIn("python3-torch", self.setup_with("record", "--print").stdout.split())
        for group in ("build", "test", "bench", "softroce"):
            self.assertNotIn("python3-torch", self.setup_with(group, "--print").stdout.split())

    def test_nothing_missing_touches_nothing(self):
        self.installed(*self.setup_with("test", "--print").stdout.split())
        self.assertEqual(self.setup_with("test", "--print").stdout, "")
        self.assertEqual(self.setup_with("test").returncode, 0)
        self.assertEqual(self.calls(), [])

    def test_only_what_is_missing_is_installed(self):
        packages = self.setup_with("build", "--print").stdout.split()
        self.installed(*(package for package in packages if package not in ("mold", "ccache")))
        self.assertEqual(self.setup_with("build").returncode, 0)
        self.assertEqual(self.calls(), [
            "apt-get update ",
            "apt-get install --yes --no-remove --no-install-recommends ccache mold noninteractive",
        ])

    def test_an_installed_boost_is_kept(self):
        self.installed("libboost1.74-dev")
        self.assertNotIn("libboost", self.setup_with("--print").stdout)

    def test_sudo_where_there_is_one(self):
        self.stand_in("id", "echo 1000")
        self.stand_in("sudo", f'echo "sudo $*" >>{self.log}')
        self.assertEqual(self.setup_with("build").returncode, 0)
        self.assertEqual(self.calls()[0], "sudo apt-get update")

    def test_neither_root_nor_sudo(self):
        self.stand_in("id", "echo 1000")
        refused = self.setup_with("build")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("run as root: apt-get update && apt-get install", refused.stderr)
        self.assertEqual(self.calls(), [])

    def test_apt_that_fails_fails_the_script(self):
        self.stand_in("apt-get", "exit 100")
        self.assertEqual(self.setup_with("build").returncode, 100)

    def test_a_machine_without_apt(self):
        (self.tools / "apt-get").unlink()
        refused = self.setup_with("build")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("Debian's packages only", refused.stderr)

    def test_wrong_arguments(self):
        refused = self.setup_with("everything")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("usage:", refused.stderr)


if __name__ == "__main__":
    unittest.main()
