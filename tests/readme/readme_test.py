"""The README does what it prints: its commands run, and its example uses their node."""

import os
import pathlib
import re
import subprocess
import unittest

from program import PROGRAM, SOURCE, Case

README = (SOURCE / "README.md").read_text(encoding="utf-8")
EXAMPLE = os.environ["FARPAGE_README_EXAMPLE"]  # on a running node
LINES_MAX = 150
COLUMNS_MAX = 100


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL).group(1)


def shell_blocks(text):
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


class ReadmeTest(Case):
    def here(self, commands):
        """The same commands for a shorter time, with this build's programs.

        The test's folder stands for /tmp and build/.
        """
        self.assertIn("$PWD/build/release/bin", commands)
        # The build folder last: it may lie below /tmp itself.
        return (commands.replace("/tmp/", f"{self.folder}/").replace("1GiB", "64MiB").replace("--requests 2000", "--requests 100")
                .replace("$PWD/build/release/bin", str(pathlib.Path(PROGRAM).parent)))

    def test_a_node_runs_as_it_says_and_the_example_uses_it(self):
        (commands,) = shell_blocks(section("Run a node"))
        lines = self.here(commands).splitlines()
        self.assertEqual(lines[-1], "kill $!")
        # Beside the commands, before the node is ended.
        script = "\n".join(["set -eu", "trap 'kill $(jobs -p)' EXIT", *lines[:-1], EXAMPLE, lines[-1], "wait $! || true", "trap - EXIT"])
        result = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                                timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("wrong bytes", result.stdout)

    def test_the_quickstart_is_two_scripts_of_this_project(self):
        (commands,) = shell_blocks(section("Quickstart"))
        scripts = commands.split()
        self.assertEqual(scripts, ["scripts/quickstart", "scripts/test"])
        for script in scripts:
            self.assertTrue(os.access(SOURCE / script, os.X_OK), script)

    def test_every_command_of_its_figures_is_known(self):
        figures = re.findall(r"`((?:farpage|farpage-lab) [^`]+|bench/scripts/\S+\.py[^`]*)`", section("Figures"))
        self.assertGreater(len(figures), 4)
        for command in figures:
            words = command.split()
            if words[0].endswith(".py"):
                self.assertTrue((SOURCE / words[0]).is_file(), command)
                continue
            program = pathlib.Path(PROGRAM).parent / words[0]
            names = [word for word in words[1:3] if re.fullmatch(r"[a-z]+", word)]
            text = subprocess.run([program, *names, "--help"], capture_output=True, text=True, check=True).stdout
            for option in re.findall(r"(?<= )--[a-z-]+", command):
                self.assertIn(f"{option} ", text, command)

    def test_it_is_short(self):
        lines = README.splitlines()
        self.assertLessEqual(len(lines), LINES_MAX)
        in_code = False
        for line in lines:
            in_code ^= line.startswith("```")
            if not in_code and not line.startswith("|"):
                self.assertLessEqual(len(line), COLUMNS_MAX, line)


if __name__ == "__main__":
    unittest.main()
