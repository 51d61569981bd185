"""Projects of their own find the installed library, wherever it is moved, as the documents say."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["FARPAGE_BUILD"])


def block(document, language):
    """The first block of that language in a document."""
    return re.search(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)[1]


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        first = cls.folder / "first"
        for component in ("library", "dev"):
            cls.run_there("cmake", "--install", BUILD, "--prefix", first, "--component", component)
        cls.prefix = first.rename(cls.folder / "moved")

    @classmethod
    def run_there(cls, *command, at=None, env=None):
        run = subprocess.run(list(map(str, command)), cwd=at or cls.folder, env={**os.environ, **(env or {})}, capture_output=True,
                             text=True, timeout=200, check=False)
        if run.returncode != 0:
            raise AssertionError(f"{command}: {run.returncode}\n{run.stdout}{run.stderr}")
        return run.stdout

    def project(self, name, source):
        folder = self.folder / self.id()
        folder.mkdir()
        (folder / name).write_text(source)
        return folder

    def built_with_cmake(self, folder, document):
        (folder / "CMakeLists.txt").write_text(block(document, "cmake"))
        self.run_there("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", at=folder)
        self.run_there("cmake", "--build", "build", at=folder)
        return self.run_there(folder / "build/first_page")

    def test_in_c_with_cmake(self):
        folder = self.project("first_page.c", block("docs/c-api.md", "c"))
        self.assertEqual(self.built_with_cmake(folder, "docs/c-api.md"), "put: ok\nfetch: ready, the bytes of a page\n")

    def test_in_c_with_pkg_config(self):
        folder = self.project("first_page.c", block("docs/c-api.md", "c"))
        paths = {"PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig"), "LD_LIBRARY_PATH": str(self.prefix / "lib")}
        self.run_there("sh", "-ec", block("docs/c-api.md", "sh"), at=folder, env=paths)
        self.assertEqual(self.run_there(folder / "first_page", env=paths), "put: ok\nfetch: ready, the bytes of a page\n")

    def test_in_cpp(self):
        folder = self.project("first_page.cc", block("README.md", "cpp"))
        self.built_with_cmake(folder, "docs/client.md")  # it fails unless the page is ready

    def test_over_ucx_from_the_library_s_own_folder(self):
        module = self.prefix / "lib/farpage/libfarpage_ucx.so"
        if not module.exists():
            self.skipTest("built without the backend ucx")
        nodes = "node = '/nowhere.sock'\\nbackend = 'ucx'\\nconnect_ms = 10"
        over_ucx = block("docs/c-api.md", "c").replace("embedded = true", nodes)
        folder = self.project("first_page.c", over_ucx)
        (folder / "CMakeLists.txt").write_text(block("docs/c-api.md", "cmake"))
        self.run_there("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", at=folder)
        self.run_there("cmake", "--build", "build", at=folder)
        said = subprocess.run([str(folder / "build/first_page")], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("/nowhere.sock", said.stderr)  # nobody answers over the backend it has loaded
        shutil.move(module, folder)
        self.addCleanup(shutil.move, folder / module.name, module)
        said = subprocess.run([str(folder / "build/first_page")], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn(f"{module}, which is not there", said.stderr)

    def test_another_version_is_refused(self):
        folder = self.project("first_page.c", "int main(void) { return 0; }\n")
        (folder / "CMakeLists.txt").write_text(block("docs/c-api.md", "cmake").replace("farpage REQUIRED", "farpage 99 REQUIRED"))
        with self.assertRaisesRegex(AssertionError, 'compatible with requested version "99"'):
            self.run_there("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", at=folder)

    def test_no_file_names_the_folders_it_was_made_in(self):
        texts = [path for path in self.prefix.rglob("*") if path.suffix in (".cmake", ".pc", ".h")]
        self.assertGreater(len(texts), 100)
        for path in texts:
            self.assertNotIn(str(BUILD), path.read_text(), path)
            self.assertNotIn(str(ROOT) + "/", path.read_text(), path)


if __name__ == "__main__":
    unittest.main()
