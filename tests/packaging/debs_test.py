"""This build's Debian packages, unpacked into a folder. scripts/test-packages installs them."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from program import PROGRAM, skip_or_fail

BUILD = pathlib.Path(PROGRAM).parents[1]
TOOLS = ("cpack", "dpkg-deb", "dpkg-shlibdeps")


def output_of(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


class DebsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="fp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def setUp(self):
        for tool in TOOLS:
            if shutil.which(tool) is None:
                skip_or_fail(self, f"needs {tool}: scripts/setup test installs it")

    def pack(self, name, *options):
        """{package: path} of the packages that the build makes."""
        folder = self.folder / name
        if not folder.exists():
            options = ["-G", "DEB", "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none", *options]
            output_of("cpack", *options, cwd=BUILD, env={**os.environ, "SOURCE_DATE_EPOCH": "1577934245"})
        return {path.name.partition("_")[0]: path for path in folder.glob("*.deb")}

    def files(self, package):
        listed = output_of("dpkg-deb", "--contents", self.pack("first")[package])
        entries = [line.split(maxsplit=5) for line in listed.splitlines()]
        self.assertEqual({entry[1] for entry in entries}, {"root/root"})
        return {entry[5].removeprefix("."): entry[0] for entry in entries}

    def field(self, package, name):
        return output_of("dpkg-deb", "--field", self.pack("first")[package], name).strip()

    def test_what_is_in_them(self):
        self.assertEqual(set(self.pack("first")), {"farpage", "libfarpage0", "libfarpage-dev"})
        files = self.files("farpage")
        for program in ("/usr/bin/farpage", "/usr/bin/farpage-lab"):
            self.assertEqual(files[program], "-rwxr-xr-x")
        for path in (
            "/etc/farpage/node.toml",
            "/lib/systemd/system/farpage-node@.service",
            "/lib/systemd/system/farpage-hold@.service",
            "/usr/lib/sysusers.d/farpage.conf",
            "/usr/share/bash-completion/completions/farpage",
            "/usr/share/doc/farpage/copyright",
            "/usr/share/man/man1/farpage-node.1.gz",
            "/usr/share/man/man5/farpage.toml.5.gz",
        ):
            self.assertEqual(files[path], "-rw-r--r--")
        self.assertFalse([path for path in files if path.endswith((".debug", ".h", ".a", ".so"))])
        if (BUILD / "lib" / "farpage" / "libfarpage_ucx.so").exists():
            self.assertIn("/usr/lib/farpage/libfarpage_ucx.so", self.files("libfarpage0"))
        self.assertIn("/usr/lib/libfarpage.so.0", {path.partition(" ")[0] for path in self.files("libfarpage0")})
        for path in ("/usr/include/farpage/farpage.h", "/usr/lib/pkgconfig/farpage.pc"):
            self.assertIn(path, self.files("libfarpage-dev"))
        for package in ("libfarpage0", "libfarpage-dev"):
            self.assertIn(f"/usr/share/doc/{package}/copyright", self.files(package))
            self.assertFalse([path for path in self.files(package) if path.startswith(("/usr/bin/", "/etc/", "/lib/"))])

    def test_an_operator_keeps_a_changed_configuration(self):
        control = self.folder / "control"
        output_of("dpkg-deb", "--control", self.pack("first")["farpage"], control)
        listed = set((control / "conffiles").read_text().split())
        files = self.files("farpage")
        self.assertEqual(listed, {path for path in files if path.startswith("/etc/") and not path.endswith("/")})
        for script in ("postinst", "prerm", "postrm"):
            output_of("sh", "-n", control / script)

    def test_what_they_need(self):
        needs = self.field("farpage", "Depends")
        for library in ("libc6", "libssl3", "libsystemd0", "libstdc++6"):
            self.assertRegex(needs, rf"(^|, ){re.escape(library)} ")
        version = self.field("farpage", "Version")
        self.assertEqual(self.field("libfarpage-dev", "Depends").partition(",")[0], f"libfarpage0 (= {version})")
        self.assertIn(f"libfarpage0 (= {version})", self.field("farpage", "Recommends"))

    def test_the_program_puts_and_gets_pages_from_where_it_is_unpacked(self):
        root = self.folder / "root"
        for package in ("farpage", "libfarpage0"):
            output_of("dpkg-deb", "--extract", self.pack("first")[package], root)
        program = root / "usr" / "bin" / "farpage"
        bench = ["bench", "fetch", "--pool-bytes", "4MiB", "--seconds", "0.1", "--json", "-"]
        backends = ["shm", "tcp"]
        if (root / "usr" / "lib" / "farpage" / "libfarpage_ucx.so").exists():
            backends.append("ucx")
        for backend in backends:
            shown = output_of(program, *bench, "--backend", backend, *(["--allow-emulated"] if backend == "ucx" else []))
            self.assertIn('"wrong_bytes": 0,', shown)

    def test_another_packing_is_equal(self):
        again = self.pack("second", "-D", "CPACK_COMPONENTS_ALL=programs;debian_programs;library;debian_library")
        self.assertEqual(set(again), {"farpage", "libfarpage0"})
        for package, path in again.items():
            self.assertEqual(path.read_bytes(), self.pack("first")[package].read_bytes(), package)


if __name__ == "__main__":
    unittest.main()
