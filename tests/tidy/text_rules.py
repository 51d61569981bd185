"""Rules about what stands in the files."""

import pathlib
import re

from include_rules import SERVING
from sources import CPP_SUFFIXES, SCRIPT_FOLDERS, folder_of, in_folder

LINES_MAX = 500
LONG_BY_NATURE = {"CHANGELOG.md", "LICENSE"}
FILES_MAX = 25
CROWDED_BY_NATURE = ("docs/decisions", "tests/fuzz/corpus")
TEXT_SUFFIXES = CPP_SUFFIXES | {".proto", ".py", ".cmake", ".md", ".txt", ".toml", ".pml"}

# The rules' own sources and bad examples name what they forbid.
RULES_FOLDER = "tests/tidy"

BANNED_ANYWHERE = {
    r"(?<![\w.>])system\s*\(": "system() runs a shell: use posix_spawn",
    r"\bstr(cpy|cat)\s*\(": "strcpy and strcat know no bounds: use std::string",
    r"(?<![\w.>])v?sprintf\s*\(": "sprintf knows no bounds: use fmt::format",
    r"(?<![\w.>])s?rand\s*\(": "rand() has hidden state: use <random> with a seed",
    r"\bstd::regex\b": "std::regex overflows the stack on long input",
    r"#\s*define\s+(private|protected)\b": "a test looks at what is public",
}
BANNED_IN_TESTS = {
    r"\b(sleep_for|sleep_until|usleep|nanosleep)\s*\(": "a test waits for an event with a deadline, never for a while",
    r"(?<![\w.>])(::)?sleep\s*\(": "a test waits for an event with a deadline, never for a while",
    r"\bKilledBySignal\b": "a crash is a sanitizer's finding: ask the kernel with a system call",
}
WALL_CLOCK = "a wall clock is set, forward and back: use base/clock.h"
CLOCKS = "base/clock.cc"  # has the wall clock, which shows that the other one stood still
BANNED_IN_LIBRARIES = {
    r"(?<![\w.>])v?printf\s*\(": "standard output belongs to cli/",
    r"(?<![\w.>])(puts|putchar)\s*\(": "standard output belongs to cli/",
    r"\b(std::cout|fprintf\s*\(\s*stdout|fmt::print\s*\(\s*(?!stderr))": "standard output belongs to cli/",
    r"\b(system_clock|high_resolution_clock|utc_clock)\b": WALL_CLOCK,
    r"\bCLOCK_(REALTIME|TAI)\w*": WALL_CLOCK,
    r"\b(gettimeofday|timespec_get|ftime)\s*\(": WALL_CLOCK,
    r"(?<![\w.>])(std::|::)?time\s*\(": WALL_CLOCK,
}
BANNED_WORDS = {
    r"\bNOLINT": "mend it, or change .clang-tidy for everybody",
    r"\bno_sanitize": "mend it: a sanitizer's finding is never silenced",
    r"_default_suppressions\b": "mend it: a sanitizer's finding is never silenced",
    r"\b\wSAN_OPTIONS\S*suppressions": "mend it: a sanitizer's finding is never silenced",
}
ABSOLUTE_PATH = re.compile(r"(?:(?<![\w.$}{\])/-])|-[IL])/(home|root)/")

MARKDOWN_LINK = re.compile(r"\[[^\]]*\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s*(\S+)")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:")
TABLE_CALL = re.compile(r"([\w./-]+\.py) --tables ")
RULES_DOCUMENT = "docs/formats/rules.md"
# Within a line, or over the end of one into the next, which may be a comment's.
_GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:(?://+|#+|\*)[ \t]*)?)"
CITED_RULES = re.compile(rf"\b[Rr]ules?{_GAP}(?P<numbers>\d+(?:(?:,|{_GAP}(?:and|or|to)\b|,{_GAP}(?:and|or)\b){_GAP}\d+\b)*)")
CITED_TESTS = re.compile(r"`(?P<file>[\w/.-]+\.(?:py|cc))::(?P<test>\w+)`")
ROOT_HELPERS = ("tests/support/needs_root.h", "tests/cli/support/program.py")
ROOT_SENTENCE = re.compile(r'"(needs root[^"]*)"')
ASKS_FOR_ROOT = re.compile(r"\bgete?uid\(\)\s*[!=]=\s*0")


def _find(lines, path, patterns):
    for number, line in lines:
        for pattern, reason in patterns.items():
            match = re.search(pattern, line)
            if match:
                yield f"{path}:{number}: '{match.group(0).strip()}': {reason}"


def banned(tree):
    for path in tree.cpp():
        patterns = dict(BANNED_ANYWHERE)
        if in_folder(path, "tests"):
            patterns.update(BANNED_IN_TESTS)
        if path.partition("/")[0] in SERVING:
            patterns.update(BANNED_IN_LIBRARIES)
        if path == CLOCKS:
            patterns = {pattern: why for pattern, why in patterns.items() if why != WALL_CLOCK}
        yield from _find(tree.code_lines(path), path, patterns)


def suppressions(tree):
    for path in tree.paths:
        if in_folder(path, RULES_FOLDER):
            continue
        if path.endswith(".supp"):
            yield f"{path}:1: a file of suppressions: mend what it hides"
        yield from _find(tree.lines(path), path, BANNED_WORDS)


def absolute_paths(tree):
    for path in tree.paths:
        if in_folder(path, RULES_FOLDER):
            continue
        for number, line in tree.lines(path):
            match = ABSOLUTE_PATH.search(line)
            if match:
                yield f"{path}:{number}: the path {match.group(0)}… is of one machine only"


def links(tree):
    for path in tree.ending(".md"):
        in_code = False
        for number, line in tree.lines(path):
            if line.lstrip().startswith("```"):
                in_code = not in_code
            if in_code:
                continue
            for match in MARKDOWN_LINK.finditer(re.sub(r"`[^`]*`", "", line)):
                target = (match.group(1) or match.group(2)).partition("#")[0]
                if not target or SCHEME.match(target):
                    continue
                place = (tree.root / folder_of(path) / target).resolve()
                inside = place.is_relative_to(tree.root.resolve())
                if not inside or not place.exists():
                    yield f"{path}:{number}: the link to {target} leads nowhere in this project"


def cited_rules(tree):
    """The protocol's rules are numbered in one document, and nobody cites one that it lacks."""
    known = set(re.findall(r"^(\d+)\. \*\*", tree.text(RULES_DOCUMENT), re.MULTILINE) if RULES_DOCUMENT in tree.paths else ())
    for path in tree.paths:
        if in_folder(path, RULES_FOLDER) or pathlib.PurePosixPath(path).suffix not in TEXT_SUFFIXES:
            continue
        text = tree.text(path)
        for citation in CITED_RULES.finditer(text):
            for cited in re.finditer(r"\d+", citation["numbers"]):
                if cited[0] not in known:
                    number = text.count("\n", 0, citation.start("numbers") + cited.start()) + 1
                    yield f"{path}:{number}: there is no rule {cited[0]} in {RULES_DOCUMENT}"


def cited_tests(tree):
    """Documents say which test shows something, and it is there: `file::test`."""
    for path in tree.ending(".md"):
        for number, line in tree.lines(path):
            for cited in CITED_TESTS.finditer(line):
                begins = re.compile(rf"(^\s*def |^TEST\w*\(\w+,\s*){cited['test']}\b", re.MULTILINE)
                files = [each for each in tree.paths if f"/{each}".endswith(f"/{cited['file']}") and in_folder(each, "tests")]
                if not any(begins.search(tree.text(each)) for each in files):
                    yield f"{path}:{number}: there is no test {cited['test']} in {cited['file']}"


def needs_root(tree):
    """A test that has to be root asks, and says what is missing, as all others do."""
    for path in tree.paths:
        if in_folder(path, RULES_FOLDER) or path in ROOT_HELPERS or not in_folder(path, "tests"):
            continue
        for number, line in tree.lines(path):
            if ASKS_FOR_ROOT.search(line):
                yield f"{path}:{number}: a test that needs root says so with {' or '.join(ROOT_HELPERS)}"
    sentences = {path: set(ROOT_SENTENCE.findall(tree.text(path))) for path in ROOT_HELPERS if path in tree.paths}
    if len(set(map(frozenset, sentences.values()))) > 1:
        yield f"{ROOT_HELPERS[0]}:1: says another sentence than {ROOT_HELPERS[1]}"


def tables(tree):
    """A document that has a table of a script, and gives the call, is named by the script."""
    for path in tree.ending(".md"):
        for number, line in tree.lines(path):
            for script in TABLE_CALL.findall(line):
                if (tree.root / script).is_file() and path not in tree.text(script):
                    yield f"{path}:{number}: {script} makes this table, and does not say so: name {path} in its docstring"


def crowded(tree):
    listed = {}
    for path in tree.paths:
        listed.setdefault(folder_of(path), []).append(path)
    for folder, paths in sorted(listed.items()):
        if len(paths) > FILES_MAX and not any(folder == free or in_folder(folder, free) for free in CROWDED_BY_NATURE):
            yield f"{folder}: {len(paths)} files, and {FILES_MAX} are the most: divide it"


def length(tree):
    for path in tree.paths:
        is_text = pathlib.PurePosixPath(path).suffix in TEXT_SUFFIXES
        if not is_text and path.partition("/")[0] not in SCRIPT_FOLDERS or path in LONG_BY_NATURE:
            continue
        lines = len(tree.text(path).splitlines())
        if lines > LINES_MAX:
            yield f"{path}:{LINES_MAX + 1}: {lines} lines, and {LINES_MAX} are the most: divide it"
