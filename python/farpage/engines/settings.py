"""The settings of adapters and the releases of engines, checked before anything starts."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import farpage


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


KINDS: dict[str, Callable[[Any], bool]] = {
    "a number above 0": lambda value: _is_number(value) and value > 0,
    "a whole number of bytes above 0": lambda value: _is_whole(value) and value > 0,
    "0 or a number above it": lambda value: _is_number(value) and value >= 0,
    "0 or a whole number above it": lambda value: _is_whole(value) and value >= 0,
    "true or false": lambda value: isinstance(value, bool),
    "a text": lambda value: isinstance(value, str),
    "\"LOCAL\" or \"REMOTE\"": lambda value: value in ("LOCAL", "REMOTE"),
    "\"block\" (a page holds a block of all layers) or \"layer\" (of one layer)": lambda value: value in ("block", "layer"),
    "{\"pages\": N}, N pages to fetch ahead, or remove the key": lambda value: isinstance(value, Mapping),
}
ABOVE_0, BYTES, FROM_0, COUNT, FLAG, TEXT, PLACE, FORM, PAGES = KINDS
WANTED = {
    "timeout_ms": ABOVE_0, "store_timeout_ms": ABOVE_0, "load_bytes": BYTES, "store_bytes": BYTES, "start_ms": FROM_0,
    "prefill_tokens_per_s": FROM_0, "chunk_tokens": COUNT, "cost_model": FLAG, "allow_untested": FLAG,
    "salt": TEXT, "model": TEXT, "dtype": TEXT, "layout": TEXT, "engine": TEXT, "locality": PLACE, "pages": FORM, "ahead": PAGES,
}

OF_CLIENTS = {"ahead"}  # which farpage.open() has too


def check(**settings: Any) -> None:
    """InvalidError: a sentence that names the key, and says what to write. Keys that no adapter has
    are farpage.open()'s to check."""
    for name, value in settings.items():
        wanted = WANTED.get(name)
        if wanted is not None and not KINDS[wanted](value):
            raise farpage.InvalidError(f"{name} is {value!r}: give {wanted}")


def refuse_others(adapter: str, more: Iterable[str]) -> None:
    """InvalidError: what an adapter would pass on to farpage.open() has a setting that only other
    adapters have, or one whose name is nearly an adapter's."""
    for name in more:
        if name in OF_CLIENTS:
            continue
        if name in WANTED:
            raise farpage.InvalidError(f"{adapter} has no setting {name}: remove it")
        # No key of a client is so near to any of them.
        near = difflib.get_close_matches(name, WANTED, n=1, cutoff=0.8)
        if near:
            raise farpage.InvalidError(f"{adapter} has no setting {name}; did you mean {near[0]}?")


def require_a_page(page_bytes: int, **bounds: int) -> None:
    """InvalidError: a bound in bytes holds no page."""
    for name, bound in bounds.items():
        if bound < page_bytes:
            raise farpage.InvalidError(f"{name} is {bound}, and a page has {page_bytes} bytes: give at least so many")


# Which were tested, by as many numbers as tell them apart.
RELEASES = {"vLLM": ("0.31", "0.32", "0.33"), "LMCache": ("0.5.6",)}


def check_version(engine: str, version: str, allow_untested: bool) -> None:
    """InvalidError: this release was not tested."""
    if allow_untested or any((version + ".").startswith(known + ".") for known in RELEASES[engine]):
        return
    raise farpage.InvalidError(f"{engine} {version} was not tested with Farpage {farpage.__version__}, and its interfaces change between releases: use "
                               f"{', '.join(RELEASES[engine])}, or set \"allow_untested\": true")
