"""The systemd units, as the build has made them for the package."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from program import PROGRAM, SOURCE, skip_or_fail

UNITS = pathlib.Path(PROGRAM).parents[1] / "packaging" / "systemd"
EXPOSURE_MOST = 20  # of 100; what is left are networks, RDMA devices, and the host's /proc files


class UnitsTest(unittest.TestCase):
    def setUp(self):
        for tool in ("systemd-analyze", "systemd-sysusers"):
            if shutil.which(tool) is None:
                skip_or_fail(self, f"needs {tool}: scripts/setup test installs systemd")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fp"))
        self.addCleanup(shutil.rmtree, self.folder)

    def analyse(self, *arguments):
        return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)

    def unit(self, kind):
        """An instance, with the program that was built in place of the one to be installed."""
        text = (UNITS / f"farpage-{kind}@.service").read_text()
        self.assertRegex(text, r"(?m)^ExecStart=/usr/bin/farpage ")
        path = self.folder / f"farpage-{kind}@a.service"
        path.write_text(re.sub(r"(?<=[= ])/usr/bin/farpage(?= )", PROGRAM, text))
        return path

    def test_systemd_finds_no_fault(self):
        for kind in ("node", "hold"):
            verified = self.analyse("verify", "--man=no", self.unit(kind))
            self.assertEqual((verified.returncode, verified.stdout + verified.stderr), (0, ""))

    def test_systemd_sees_a_fault(self):
        unit = self.unit("node")
        unit.write_text(unit.read_text().replace("NoNewPrivileges", "NoNewPrivilege"))
        self.assertIn("NoNewPrivilege", self.analyse("verify", "--man=no", unit).stderr)

    def test_little_is_exposed(self):
        for kind in ("node", "hold"):
            judged = self.analyse("security", "--offline=true", f"--threshold={EXPOSURE_MOST}", self.unit(kind))
            self.assertEqual(judged.returncode, 0, judged.stdout + judged.stderr)
            self.assertIn("Overall exposure level", judged.stdout)

    def test_sysusers_makes_the_user_of_the_units(self):
        self.assertIn("\nUser=farpage\n", self.unit("node").read_text())
        configuration = SOURCE / "packaging" / "systemd" / "sysusers.conf"
        (self.folder / "etc").mkdir()
        command = ["systemd-sysusers", "--dry-run", f"--root={self.folder}", configuration]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Creating user 'farpage'", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
