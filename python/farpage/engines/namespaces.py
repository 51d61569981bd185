"""Which pages an engine may find: only those of the same weights, format, place and engine."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
from collections.abc import Iterable, Mapping

from farpage.keys import KeySpace

EPOCH_BYTES = 8
LONGEST_VALUE = 256  # bytes; of what is longer, its digest counts
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
# The code of models that bring their own changes what KV means, too.
CONFIGURATION = ("*.json", "*.py")
# Engines hash tokens' numbers, so these change no page.
NEUTRAL = {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "special_tokens_map.json", "added_tokens.json",
           "chat_template.json"}
WHOLE_BYTES = 1 << 20  # a file of at most so many counts with each byte
PIECE_BYTES = 1024  # of longer ones, a piece in each `PIECE_EVERY` bytes,
PIECE_EVERY = 1 << 16
MOST_PIECES = 1 << 15  # or further apart: about so many of a model


def weights_digest(model: str | os.PathLike[str], revision: str = "", download_folder: str = "") -> str:
    """A digest of what `model` names on this host: of a folder its weights and configuration, of a
    file this one, by names, lengths and samples; of a hub's id the commit in the hub's cache. "":
    it names none of these. Hosts with the same files agree."""
    path = pathlib.Path(model)
    if not os.fspath(model):
        return ""
    if path.is_file():
        return _digest([path])
    if path.is_dir():
        found = {each for pattern in (*WEIGHTS, *CONFIGURATION) for each in path.glob(pattern)}
        return _digest(each for each in found if each.name not in NEUTRAL and each.is_file())
    return _commit(os.fspath(model), revision, download_folder)


def _digest(files: Iterable[pathlib.Path]) -> str:
    lengths = {path: path.stat().st_size for path in files}
    every = max(PIECE_EVERY, sum(lengths.values()) // MOST_PIECES)
    digest = hashlib.sha256()
    for path in sorted(lengths):
        length = lengths[path]
        digest.update(f"{path.name} {length}\n".encode(errors="surrogatepass"))
        with path.open("rb", buffering=0) as file:
            if length <= WHOLE_BYTES:
                digest.update(file.read())
                continue
            for start in (*range(0, length - PIECE_BYTES, every), length - PIECE_BYTES):
                digest.update(os.pread(file.fileno(), PIECE_BYTES, start))
    return digest.hexdigest()[:32]


def _commit(model: str, revision: str, download_folder: str) -> str:
    """Where a hub's cache is, and what is in it, is the same for all engines."""
    name = model.partition(":")[0]  # of a GGUF: what follows names one of its files
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        return ""
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    cache = download_folder or os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    folder = pathlib.Path(cache).expanduser() / f"models--{name.replace('/', '--')}"
    revision = revision or "main"
    try:
        return (folder / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return revision if (folder / "snapshots" / revision).is_dir() else ""


def page_space(*, engine: str, version: str, model: str, dtype: str, layout: str, block_tokens: int, ranks: Mapping[str, object],
               revision: str = "", download_folder: str = "", salt: str = "", **more: object) -> KeySpace:
    """The namespace of an engine's pages. `dtype` is the one that the engine computes with, as it
    names it, and not that of the memory. `ranks`: each parallel rank and size by its name.
    `revision` and `download_folder`: of a model of a hub, and where the engine keeps it, if not in
    the hub's own cache. `salt`: the operator's; pages of another are never found. `more`: what else
    is in a page."""
    facts = {"engine": engine, "version": version, "model": model, "weights": weights_digest(model, revision, download_folder), "dtype": dtype,
             "layout": layout, "block_tokens": block_tokens, "revision": revision, "salt": salt,
             **{f"rank.{name}": value for name, value in ranks.items()}, **more}
    return KeySpace({name: _told(str(value)) for name, value in facts.items()})


def _told(value: str) -> str:
    """As a line of text tells it: the layers of a large model are several KiB."""
    data = value.encode(errors="surrogatepass")
    is_plain = len(data) <= LONGEST_VALUE and value.isprintable()
    return value if is_plain else f"sha256:{hashlib.sha256(data).hexdigest()}"


class Epoch:
    """Names pages by an engine's own keys of one length. No name of before `begin()` comes again,
    in this engine or another."""

    def __init__(self) -> None:
        self._prefix = b""

    def begin(self) -> None:
        self._prefix = os.urandom(EPOCH_BYTES)

    def names(self, keys: Iterable[bytes]) -> list[bytes]:
        return [self._prefix + key for key in keys] if self._prefix else list(keys)
