"""The project's files, and what a rule needs to know of them."""

import pathlib
import re
import subprocess

SKIPPED_FOLDERS = {".git", "build", "out", "traces", "__pycache__"}
CPP_SUFFIXES = {".h", ".cc"}
SCRIPT_FOLDERS = {"scripts", ".ci"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])+'", re.DOTALL
)


class Tree:
    """Paths are relative to the root, with forward slashes."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.paths = sorted(path for path in self._list() if (self.root / path).is_file())
        self._texts = {}

    def _list(self):
        if (self.root / ".git").exists():
            command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
            listed = subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, check=True).stdout
            return {path for path in listed.decode().split("\0") if path}
        # An unpacked archive has no index.
        every = (path.relative_to(self.root) for path in self.root.rglob("*"))
        return {path.as_posix() for path in every if not SKIPPED_FOLDERS.intersection(path.parts)}

    def text(self, path):
        if path not in self._texts:
            data = (self.root / path).read_bytes()
            self._texts[path] = "" if b"\0" in data else data.decode("utf-8", "replace")
        return self._texts[path]

    def lines(self, path):
        return enumerate(self.text(path).splitlines(), start=1)

    def cpp(self):
        return [path for path in self.paths if pathlib.PurePosixPath(path).suffix in CPP_SUFFIXES]

    def ending(self, suffix):
        return [path for path in self.paths if path.endswith(suffix)]

    def code_lines(self, path):
        """Lines without comments and without what stands in strings."""
        blank = lambda match: '""' + "\n" * match.group(0).count("\n")
        return enumerate(COMMENT_OR_STRING.sub(blank, self.text(path)).splitlines(), start=1)

    def includes(self, path):
        """(line number, '"' or '<', what is included)"""
        for number, line in self.lines(path):
            match = INCLUDE.match(line)
            if match:
                yield number, match.group(1), match.group(2)


def in_folder(path, folder):
    return path.startswith(folder + "/")


def folder_of(path):
    return path.rpartition("/")[0]
