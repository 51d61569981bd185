"""Comments, docstrings and prose end within 100 columns; code, tables and addresses are free."""

import ast
import io
import pathlib
import re
import tokenize

from sources import COMMENT_OR_STRING

COLUMNS_MAX = 100
C_SUFFIXES = {".h", ".cc", ".proto", ".pml"}
HASH_SUFFIXES = {".cmake", ".toml"}
HASH_NAMES = {"CMakeLists.txt", ".clang-tidy", ".clang-format", ".gitignore"}
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|' r"'[^']*'")
HASH_COMMENT = re.compile(r"(?:^|\s)#(?:\s|$)")


def _python(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            yield from range(node.body[0].lineno, node.body[0].end_lineno + 1)


def _hash(text):
    for number, line in enumerate(text.splitlines(), start=1):
        if HASH_COMMENT.search(QUOTED.sub('""', line)):
            yield number


def _c(text):
    for match in COMMENT_OR_STRING.finditer(text):
        if match[0].startswith(("//", "/*")):
            first = text.count("\n", 0, match.start()) + 1
            yield from range(first, first + match[0].count("\n") + 1)


def _markdown(text):
    in_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.lstrip().startswith("|"):
            yield number


def _reader(path, text):
    """Finds the lines of a file that people read as text; None: the file has none."""
    name = pathlib.PurePosixPath(path)
    shebang = text.partition("\n")[0] if text.startswith("#!") else ""
    if name.suffix == ".py" or "python" in shebang:
        return _python
    if name.suffix in C_SUFFIXES:
        return _c
    if name.suffix == ".md":
        return _markdown
    if name.suffix in HASH_SUFFIXES or name.name in HASH_NAMES or shebang:
        return _hash
    return None


def columns(tree):
    for path in tree.paths:
        text = tree.text(path)
        reader = _reader(path, text)
        if reader is None:
            continue
        lines = text.splitlines()
        for number in sorted(set(reader(text))):
            width = len(lines[number - 1])
            if width > COLUMNS_MAX and "://" not in lines[number - 1]:
                yield f"{path}:{number}: a comment or prose of {width} columns, and {COLUMNS_MAX} are the most: wrap it"
