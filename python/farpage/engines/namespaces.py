"""Which pages an engine may find: only those of the same weights, format, place and engine."""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Iterator, Mapping

from farpage.keys import KeySpace

# Of each file of weights: so many pieces, spread evenly. Training changes nearly every weight.
PIECES, PIECE_BYTES = 64, 4096
LONGEST_VALUE = 256  # bytes; of what is longer, its digest counts
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


def weights_digest(model: str | os.PathLike[str]) -> str:
    """A digest of a folder of weights, by names, lengths and samples of its files; "" where
    `model` is no folder of this host. Two models under one path differ in it."""
    folder = pathlib.Path(model)
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in WEIGHTS for path in folder.glob(pattern)}):
        length = path.stat().st_size
        digest.update(f"{path.name} {length}\n".encode())
        for piece in _pieces(path, length):
            digest.update(piece)
    return digest.hexdigest()[:32]


def _pieces(path: pathlib.Path, length: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        for number in range(PIECES):
            file.seek(max(0, length - PIECE_BYTES) * number // (PIECES - 1))
            yield file.read(PIECE_BYTES)


def page_space(*, engine: str, version: str, model: str, dtype: str, layout: str, block_tokens: int,
               ranks: Mapping[str, object], salt: str = "", **more: object) -> KeySpace:
    """The namespace of an engine's pages. `dtype` is the one that the engine computes with, as it
    names it, and not that of the memory. `ranks`: each parallel rank and size by its name.
    `salt`: the operator's; pages of another are never found. `more`: what else is in a page."""
    facts = {"engine": engine, "version": version, "model": model, "weights": weights_digest(model), "dtype": dtype, "layout": layout,
             "block_tokens": block_tokens, "salt": salt, **{f"rank.{name}": value for name, value in ranks.items()}, **more}
    return KeySpace({name: _told(str(value)) for name, value in facts.items()})


def _told(value: str) -> str:
    """As a line of text tells it: the layers of a large model are several KiB."""
    data = value.encode(errors="surrogatepass")
    is_plain = len(data) <= LONGEST_VALUE and value.isprintable()
    return value if is_plain else f"sha256:{hashlib.sha256(data).hexdigest()}"
