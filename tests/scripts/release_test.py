"""scripts/release in a repository of its own. Its stand-ins for cmake, cpack and
scripts/wheel build nothing."""

import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "release"
PACKS = 'mkdir -p "$4"; echo packed >"$4/farpage.deb"'
PACKS_DIFFERENTLY = 'mkdir -p "$4"; echo "$4" >"$4/farpage.deb"'
WHEEL = 'dist=$(dirname "$0")/../build/wheel/dist; mkdir -p "$dist"; echo %s >"$dist/farpage.whl"'


class ReleaseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        self.stand_in("cmake", 'if [[ $1 == --build ]]; then mkdir -p "$2"; fi')
        self.stand_in("cpack", PACKS)
        self.source = self.folder / "source"
        (self.source / "scripts").mkdir(parents=True)
        shutil.copy(SCRIPT, self.source / "scripts")
        shutil.copy(shutil.which("true"), self.source / "scripts" / "setup")
        self.stand_in_for_wheel("made of it")
        (self.source / "CMakeLists.txt").write_text("project(farpage VERSION 3.4.5 LANGUAGES CXX)\n")
        (self.source / ".gitignore").write_text("/build/\n/out/\n")
        self.environment = {
            **os.environ,
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "first"]):
            subprocess.run(["git", *arguments], cwd=self.source, env=self.environment, check=True)

    def stand_in(self, name, text, folder=None):
        path = (folder or self.tools) / name
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)

    def stand_in_for_wheel(self, content):
        self.stand_in("wheel", WHEEL % content, self.source / "scripts")

    def release(self, *arguments):
        command = [self.source / "scripts" / "release", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True)

    def published(self):
        return {path.name: path.read_bytes() for path in (self.source / "out" / "release").iterdir()}

    def test_it_publishes_the_source_the_packages_and_their_sums(self):
        done = self.release()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(self.published()), {"farpage-3.4.5.tar.gz", "farpage.deb", "farpage.whl", "SHA256SUMS"})
        folder = self.source / "out" / "release"
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
        with tarfile.open(folder / "farpage-3.4.5.tar.gz") as archive:
            self.assertIn("farpage-3.4.5/scripts/release", archive.getnames())

    def test_another_run_gives_the_same_bytes(self):
        self.assertEqual(self.release().returncode, 0)
        first = self.published()
        os.utime(self.source / "CMakeLists.txt", (1, 1))
        self.assertEqual(self.release("--check").returncode, 0)
        self.assertEqual(self.published(), first)

    def test_a_difference_is_told(self):
        self.stand_in("cpack", PACKS_DIFFERENTLY)
        done = self.release("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("farpage.deb", done.stdout)
        self.assertFalse((self.source / "out").exists())

    def test_a_wheel_that_differs_is_told(self):
        self.stand_in_for_wheel('"$1"')  # which names the folder
        subprocess.run(["git", "commit", "--quiet", "--all", "--message", "second"], cwd=self.source, env=self.environment, check=True)
        done = self.release("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("farpage.whl", done.stdout)

    def test_what_no_commit_has_is_refused(self):
        (self.source / "new").touch()
        done = self.release()
        self.assertEqual(done.returncode, 1)
        self.assertIn("commit", done.stderr)


if __name__ == "__main__":
    unittest.main()
