"""Rules about who knows one backend from another."""

import re

from sources import COMMENT_OR_STRING, in_folder

NAMES = ("shm", "tcp", "verbs", "ucx", "cuda")
FREE_FOLDERS = ("transport", "sim", "tests")
# The registrations list them all, and ask none for its name.
TABLES = {"backends/registration.h", "backends/backends.cc", "doctor/backends/every_check.cc"}


def _homes(name):
    return {f"backends/{name}.cc", f"doctor/backends/backend_{name}.h", f"doctor/backends/backend_{name}.cc"}


def _knowing(name):
    """Signs that code knows this backend, and the folders where they may stand."""
    yield re.compile(rf'"{name}"'), _homes(name)
    yield re.compile(rf"\bFARPAGE_HAS_{name.upper()}\b"), _homes(name)
    yield re.compile(rf"\bk{name.capitalize()}(Backend|Check)\b"), _homes(name) | TABLES


def _lines_without_comments(tree, path):
    blank = lambda match: "\n" * match.group().count("\n") if match.group().startswith("/") else match.group()
    return enumerate(COMMENT_OR_STRING.sub(blank, tree.text(path)).splitlines(), start=1)


def backend_names(tree):
    rules = [rule for name in NAMES for rule in _knowing(name)]
    for path in tree.cpp():
        if any(in_folder(path, folder) for folder in FREE_FOLDERS):
            continue
        for number, line in _lines_without_comments(tree, path):
            for pattern, places in rules:
                match = pattern.search(line)
                if match and path not in places:
                    yield f"{path}:{number}: {match.group()}: ask the backend's registration (backends/registration.h)"
