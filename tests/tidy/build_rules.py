"""Rules about what the build knows."""

import re

from sources import folder_of

COMMENT = re.compile(r"#[^\n]*")
WORD = re.compile(r"[\w./+-]+")


def _ancestors(folder):
    while folder:
        yield folder
        folder = folder_of(folder)
    yield ""


def _list_path(folder):
    return f"{folder}/CMakeLists.txt" if folder else "CMakeLists.txt"


def _words(tree, folder):
    path = _list_path(folder)
    if path not in tree.paths:
        return set()
    return set(WORD.findall(COMMENT.sub("", tree.text(path))))


def _named_above(tree, path, first_folder):
    for folder in _ancestors(first_folder):
        relative = path[len(folder) + 1 :] if folder else path
        if relative in _words(tree, folder):
            return True
    return False


def built(tree):
    for path in tree.ending(".cc"):
        if not _named_above(tree, path, folder_of(path)):
            yield f"{path}:1: no CMakeLists.txt names it, so it is never built"
    for path in tree.ending("/CMakeLists.txt"):
        folder = folder_of(path)
        if not _named_above(tree, folder, folder_of(folder)):
            yield f"{path}:1: no CMakeLists.txt above adds its folder"
