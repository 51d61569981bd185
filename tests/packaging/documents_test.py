"""Manual pages and completions of both programs, compared with what --help shows."""

import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

from program import LAB, PROGRAM, SOURCE, skip_or_fail

MAKER = SOURCE / "packaging" / "documents" / "make_documents.py"
CONFIGS = SOURCE / "configs"


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)


class Help:
    """What --help shows of a command."""

    def __init__(self, *command):
        text = run(*command, "--help", check=True).stdout
        options, _, listed = text.partition("\nSubcommands:\n")
        self.options = [name for line in re.findall(r"^  (-\S+)", options, re.MULTILINE) for name in line.split(",")]
        self.commands = re.findall(r"^  (\S+)", listed, re.MULTILINE)


def every_command(program):
    """((name of the program, command...), its help) of all."""

    def below(*path):
        shown = Help(program, *path)
        yield (pathlib.Path(program).name, *path), shown
        for name in shown.commands:
            yield from below(*path, name)

    return list(below())


class DocumentsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = [command for program in (PROGRAM, LAB) for command in every_command(program)]
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="fp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.share = cls.folder / "share"
        options = ["--version", "1.2.3", "--date", "2020-01-02", "--configs", CONFIGS]
        subprocess.run([sys.executable, "-B", MAKER, "--out", cls.share, *options, PROGRAM, LAB], check=True)

    def need(self, tool):
        if shutil.which(tool) is None:
            skip_or_fail(self, f"needs {tool}: scripts/setup test installs it")

    def pages(self):
        """Unpacked, as paths."""
        for packed in sorted((self.share / "man").glob("*/*.gz")):
            page = self.folder / packed.stem
            page.write_bytes(gzip.decompress(packed.read_bytes()))
            yield page

    def read(self, name):
        page = self.share / "man" / f"man{name[-1]}" / f"{name}.gz"
        shown = run("mandoc", "-Tascii", "-Owidth=400", input=gzip.decompress(page.read_bytes()).decode())
        return re.sub(".\b", "", shown.stdout)

    def test_every_command_and_option_is_in_its_page(self):
        self.need("mandoc")
        names = {f"{'-'.join(path)}.1" for path, _ in self.commands}
        self.assertGreater(len(names), 15)
        self.assertEqual({page.name for page in self.pages()}, names | {"farpage.toml.5"})
        for path, shown in self.commands:
            text = self.read(f"{'-'.join(path)}.1")
            options = set(re.findall(r"(?:^ +|, )(--?[a-z][a-z0-9-]*)", text, re.MULTILINE))
            self.assertEqual(options, set(shown.options), path)
            for name in shown.commands:
                self.assertIn(f"{'-'.join(path)}-{name}(1)", text)

    def test_every_key_is_in_the_page_of_the_configuration(self):
        self.need("mandoc")
        text = self.read("farpage.toml.5")
        nodes, _, clients = text.partition("\nCLIENTS\n")
        for page, name in ((nodes, "node.toml"), (clients, "client.toml")):
            for table, keys in tomllib.loads((CONFIGS / name).read_text()).items():
                self.assertRegex(page, rf"(?m)^   \[{table}\]$")
                for key in keys:
                    self.assertRegex(page, rf"(?m)^ +{key} = ")

    def test_readers_of_manual_pages_find_no_fault(self):
        for tool in ("mandoc", "groff"):
            self.need(tool)
        for page in self.pages():
            for command in (["mandoc", "-Tlint", "-Wwarning"], ["groff", "-man", "-ww", "-z", "-Tutf8"]):
                found = run(*command, page)
                self.assertEqual((found.returncode, found.stdout + found.stderr), (0, ""), page.name)

    def complete(self, *words):
        """What bash offers for the last of these words."""
        script = self.share / "bash-completion" / "completions" / words[0]
        command = (
            f'source "{script}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            f'function=$(complete -p {words[0]} | grep -o "_[a-z_]* "); $function; printf "%s\\n" "${{COMPREPLY[@]}}"'
        )
        done = run("bash", "--norc", "-c", command, "bash", *words, cwd=self.folder, check=True)
        self.assertEqual(done.stderr, "")
        return sorted(done.stdout.split())

    def test_bash_completes_every_command_and_option(self):
        for path, shown in self.commands:
            self.assertEqual(self.complete(*path, "-"), sorted(shown.options))
            if shown.commands:
                self.assertEqual(self.complete(*path, ""), sorted(shown.commands))

    def test_bash_completes_values(self):
        (self.folder / "a.toml").touch()
        for words in (["--verify", ""], ["--verify", "=", ""], ["--json", "put", "--verify", ""]):
            self.assertEqual(self.complete("farpage", "bench", "fetch", *words), ["off", "on"])
        self.assertEqual(self.complete("farpage", "bench", "fetch", "--verify", "="), ["off", "on"])
        self.assertEqual(self.complete("farpage", "node", "--config", "a."), ["a.toml"])
        self.assertEqual(self.complete("farpage", "node", "--pool-bytes", ""), [])
        self.assertEqual(self.complete("farpage", "hold", "--", "a.t"), ["a.toml"])

    def test_fish_completes(self):
        self.need("fish")
        script = self.share / "fish" / "vendor_completions.d" / "farpage.fish"

        def offered(line):
            command = f"source {script}; complete -C '{line}'"
            done = run("fish", "--no-config", "-c", command, env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"})
            self.assertEqual(done.stderr, "")
            return sorted(line.split()[0] for line in done.stdout.splitlines())

        of = {path: shown for path, shown in self.commands}
        self.assertEqual(offered("farpage "), sorted(of["farpage",].commands))
        self.assertEqual(offered("farpage bench "), sorted(of["farpage", "bench"].commands))
        long = [name for name in of["farpage", "bench", "put"].options if name.startswith("--")]
        self.assertEqual(offered("farpage bench put --"), sorted(long))
        self.assertEqual(offered("farpage bench fetch --verify o"), ["off", "on"])

    def test_zsh_reads_its_completion(self):
        self.need("zsh")
        for program in ("farpage", "farpage-lab"):
            read = run("zsh", "-f", "-n", self.share / "zsh" / "vendor-completions" / f"_{program}")
            self.assertEqual((read.returncode, read.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
