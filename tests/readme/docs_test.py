"""Every command line in the documents names commands, options and configuration keys that exist.

Every script that their text names exists too.
"""

import itertools
import pathlib
import re
import subprocess
import tomllib
import unittest

from program import PROGRAM, SOURCE

# Decisions and the changelog tell of former commands too.
DOCUMENTS = [SOURCE / "README.md", SOURCE / "ARCHITECTURE.md", *sorted((SOURCE / "docs").glob("*.md")),
             *sorted((SOURCE / "docs/formats").glob("*.md"))]
COMMANDS_LEAST = 150
SCRIPTS_LEAST = 60
PROGRAMS = ("farpage", "farpage-lab")
ENDS = re.compile(r"[|;&)]+|\d?>.*")
# etcd's own tool, whose user in the documents is called farpage.
OTHERS = "etcdctl"
# From the root of the project. The rule `links` checks links that are relative to a document.
SCRIPT = re.compile(r"(?<![\w./-])(?:\w+/)*scripts/[\w./-]*\w")


def code(text):
    """The lines of the document's code blocks and its inline code, continued lines joined."""
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    +(.*(?:\\\n.*)*)", rest, re.MULTILINE)
    for block in [*fenced, *indented]:
        yield from re.sub(r"\\\n", " ", block).splitlines()
    for inline in re.findall(r"`([^`]+)`", rest):
        if inline.split()[:1] and inline.split()[0] in PROGRAMS:
            yield " ".join(inline.split())


def commands(line):
    """Words of a code line's command lines: `farpage hold -- farpage node` has two of them."""
    if OTHERS in line:
        return
    words = None
    for word in line.partition(" #")[0].split():
        name = pathlib.PurePath(word.strip("\"'$(")).name
        if name in PROGRAMS:
            if words is not None:
                yield words
            words = [name]
        elif ENDS.fullmatch(word):
            if words is not None:
                yield words
            words = None
        elif words is not None:
            words.append(word.strip("\"'"))
    if words is not None:
        yield words


class Helps:
    def __init__(self):
        self.known = {}

    def __getitem__(self, command):
        """(subcommands, options) of a command."""
        if command not in self.known:
            path = [pathlib.Path(PROGRAM).parent / command[0], *command[1:], "--help"]
            text = subprocess.run(path, capture_output=True, text=True, check=True).stdout
            options, _, listed = text.partition("\nSubcommands:\n")
            self.known[command] = (set(re.findall(r"^  (\w+)", listed, re.MULTILINE)),
                                   set(re.findall(r"^  (?:-\w,)?(--[a-z][a-z0-9-]*)", options, re.MULTILINE)))
        return self.known[command]


def defaults(name):
    """Every key of a configuration, and its default; Configs.* compares them with the program's."""
    tables = tomllib.loads((SOURCE / "configs" / name).read_text(encoding="utf-8"))
    return {f"{table}.{key}": value for table, entries in tables.items() for key, value in entries.items()}


def keys_in_tables(text):
    """(key, default) in a document's tables of keys; a row has one or several of both."""
    for row in re.findall(r"^\|(.*)\|$", text, re.MULTILINE):
        keys, values = (re.findall(r"`([^`]*)`", cell) for cell in row.split("|")[:2])
        if keys and all(re.fullmatch(r"[a-z]+\.[a-z_]+", key) for key in keys):
            yield from itertools.zip_longest(keys, (tomllib.loads(f"value = {value}")["value"] for value in values))


HELPS = Helps()
CLIENT = defaults("client.toml")
KEYS = defaults("node.toml").keys() | CLIENT.keys()


def objection(words):
    """The first word of a command line that does not exist."""
    command, rest = (words[0],), words[1:]
    while rest and HELPS[command][0] and not rest[0].startswith("-"):
        if rest[0] not in HELPS[command][0]:
            return rest[0]
        command, rest = (*command, rest[0]), rest[1:]
    options = HELPS[command][1]
    for word in rest:
        option = re.match(r"--[a-z][a-z0-9-]*", word)
        if option and option.group(0) not in options:
            return option.group(0)
        key = re.match(r"([a-z]+\.[a-z_]+)=", word)
        if key and key.group(1) not in KEYS:
            return key.group(1)
    return None


class DocsTest(unittest.TestCase):
    def test_every_command_line_is_known(self):
        seen = 0
        for document in DOCUMENTS:
            for line in code(document.read_text(encoding="utf-8")):
                for words in commands(line):
                    # The name of the program, or of a user, beside other words.
                    if len(words) == 1 or not re.fullmatch(r"--[a-z-]+|[a-z]+", words[1]):
                        continue
                    seen += 1
                    with self.subTest(f"{document.relative_to(SOURCE)}: {' '.join(words)}"):
                        self.assertIsNone(objection(words))
        self.assertGreaterEqual(seen, COMMANDS_LEAST)

    def test_every_script_is_there(self):
        seen = 0
        for document in DOCUMENTS:
            for script in SCRIPT.findall(document.read_text(encoding="utf-8")):
                seen += 1
                with self.subTest(f"{document.relative_to(SOURCE)}: {script}"):
                    self.assertTrue((SOURCE / script).is_file())
        self.assertGreaterEqual(seen, SCRIPTS_LEAST)

    def test_the_client_has_each_of_its_keys_once(self):
        found = list(keys_in_tables((SOURCE / "docs/client.md").read_text(encoding="utf-8")))
        self.assertEqual(dict(found), CLIENT)
        self.assertEqual(len(found), len(CLIENT))

    def test_scripts_are_found_in_running_text(self):
        for text, scripts in (("`scripts/setup` and bench/scripts/peers.py.", ["scripts/setup", "bench/scripts/peers.py"]),
                              ("    python3 lab/scripts/a_b.py --tables x", ["lab/scripts/a_b.py"]), ("[all](../scripts/test), scripts/", [])):
            self.assertEqual(SCRIPT.findall(text), scripts, text)

    def test_unknown_words_are_found(self):
        for line, word in (("farpage replay generate", "replay"), ("farpage bench fetsh", "fetsh"),
                           ("until bin/farpage status --nodes x; do", "--nodes"), ("farpage node --set node.evcit=true", "node.evcit"),
                           ("farpage hold -- farpage nod", "nod"), ("$(pgrep -f \"farpage-lab policies --budgets 5\")", "--budgets")):
            found = [objection(words) for words in commands(line)]
            self.assertIn(word, found, line)
        self.assertEqual([objection(words) for words in commands("farpage bench fetch --json - | jq . # --no")], [None])


if __name__ == "__main__":
    unittest.main()
