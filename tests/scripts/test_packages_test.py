"""scripts/test-packages where it cannot run, and how it reads packaging/Containerfile."""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "scripts" / "test-packages"


def load():
    loader = importlib.machinery.SourceFileLoader("test_packages", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class PackagesTest(unittest.TestCase):
    def run_script(self, *arguments, **environment):
        command = [sys.executable, "-B", SCRIPT, *arguments]
        return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)

    def test_it_says_why_it_is_skipped_and_fails_where_nothing_may_be(self):
        for ci, status in (("", 0), ("true", 1)):
            done = self.run_script(PATH="/nowhere", CI=ci)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stdout, r"^skipped: needs (root|debootstrap)")

    def test_unknown_options_are_refused(self):
        for arguments in (["--all"], ["a", "b"]):
            self.assertEqual(self.run_script(*arguments).returncode, 2)

    def test_it_knows_every_step_of_the_image(self):
        steps = load().instructions((SOURCE / "packaging" / "Containerfile").read_text())
        self.assertEqual([name for name, _ in steps][:3], ["FROM", "COPY", "RUN"])
        self.assertIn(("USER", "farpage"), steps)
        self.assertIn("&& apt-get install", dict(reversed(steps))["RUN"])
        self.assertFalse({name for name, _ in steps} - {"FROM", "COPY", "RUN", "VOLUME", "USER", "ENTRYPOINT", "CMD"})


if __name__ == "__main__":
    unittest.main()
