"""What docs/engines.md tells to run, word by word, with the files that it names."""

import json
import pathlib
import re
import shlex

SOURCE = pathlib.Path(__file__).resolve().parents[3]


def configuration(name):
    """A file of configs/engines."""
    return json.loads((SOURCE / "configs/engines" / name).read_text(encoding="utf-8"))


def command(begin):
    """The words of the one command that begins so; `$(cat FILE)` is what is in the file."""
    text = (SOURCE / "docs/engines.md").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(rf"^ *({re.escape(begin)}.*)$", text, re.MULTILINE)
    return [re.sub(r"^\$\(cat (.+)\)$", lambda found: (SOURCE / found[1]).read_text(encoding="utf-8"), word) for word in shlex.split(line)]
