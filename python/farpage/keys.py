"""Keys of pages: 16 bytes, made from facts about a model and an engine's own key
(docs/formats/keys.md)."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

import numpy

from farpage._library import KEY_BYTES, c, check
from farpage.buffers import address_of
from farpage.errors import InvalidError

if TYPE_CHECKING:
    import numpy.typing

    Keys = Union[bytes, "numpy.typing.NDArray[numpy.uint8]", list[bytes], tuple[bytes, ...]]

Text = Union[str, bytes]
FACT_BYTES_MAX = 4096
_CANONICAL = b"farpage-facts-1\n"


def _bytes_of(text: Text, what: str) -> bytes:
    if isinstance(text, str):
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise InvalidError(f"{what} is no text of Unicode: {error}") from None
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise InvalidError(f"{what} is of type {type(text).__name__}: give text or bytes")


def page_key(name_space: Text, name: Text) -> bytes:
    """The 16 bytes that name a page, by its name in a namespace: both of any bytes and length."""
    space, own = _bytes_of(name_space, "a namespace"), _bytes_of(name, "a page's name")
    key = ctypes.create_string_buffer(KEY_BYTES)
    check(c.key(space, len(space), own, len(own), key))
    return key.raw


class KeySpace:
    """Facts that decide what is in a page: pages of other facts have other keys.

        space = KeySpace(model="Qwen/Qwen3-8B", dtype="bfloat16", layout="HND")
        space.key("block 17"), space.keys(["block 17", "block 18"])

    Names have 1 to 4,096 bytes, values 0 to 4,096, texts count as UTF-8. InvalidError says which
    fact is wrong. Instances may be shared among threads.
    """

    def __init__(self, facts: Mapping[Any, Text] | None = None, /, **more: Text) -> None:
        named: dict[bytes, bytes] = {}
        for name, value in [*(facts or {}).items(), *more.items()]:
            fact = _bytes_of(name, "a fact's name")
            if not 1 <= len(fact) <= FACT_BYTES_MAX:
                raise InvalidError(f"a fact's name has {len(fact)} bytes: give 1 to {FACT_BYTES_MAX}")
            if fact in named:
                raise InvalidError(f"the fact {name!r} stands there twice")
            named[fact] = _bytes_of(value, f"the fact {name!r}")
            if len(named[fact]) > FACT_BYTES_MAX:
                raise InvalidError(f"the fact {name!r} has {len(named[fact])} bytes: give at most {FACT_BYTES_MAX}")
        if not named:
            raise InvalidError("there is no fact: name at least the model")
        self._facts = named
        texts = (text for name in sorted(named) for text in (name, named[name]))
        canonical = _CANONICAL + b"".join(len(text).to_bytes(8, "little") + text for text in texts)
        self._namespace = hashlib.sha256(canonical).digest()

    @property
    def namespace(self) -> bytes:
        """32 bytes; people compare the first 16 of them in hexadecimal digits."""
        return self._namespace

    def lines(self) -> str:
        """The facts in lines NAME=VALUE, as the setting `client.facts` takes them. InvalidError:
        they cannot be said so."""
        try:
            facts = {name.decode(): value.decode() for name, value in self._facts.items()}
        except UnicodeDecodeError as error:
            raise InvalidError(f"client.facts takes text alone: {error}") from None
        for name, value in facts.items():
            if "=" in name or "\n" in name + value or "\0" in name + value:
                raise InvalidError(f"client.facts cannot tell the fact {name!r}: leave '=' out of names, and line feeds and null characters "
                                   "out of names and values")
        return "".join(f"{name}={value}\n" for name, value in sorted(facts.items()))

    def key(self, engine_key: Text) -> bytes:
        """The page's key, 16 bytes, by the engine's own key: any bytes of any length."""
        return page_key(self._namespace, engine_key)

    def keys(self, engine_keys: Iterable[Text]) -> numpy.typing.NDArray[numpy.uint8]:
        """The keys of several pages: an array of uint8 with the shape (pages, 16). Names of one
        length, such as an engine's hashes of blocks, take one call of the library."""
        names: list[Any] = list(engine_keys)
        if set(map(type, names)) != {bytes}:
            names = [_bytes_of(each, "a page's name") for each in names]
        if len(set(map(len, names))) != 1:
            return keys_of([self.key(name) for name in names])[0]
        keys = numpy.empty((len(names), KEY_BYTES), numpy.uint8)
        check(c.keys(self._namespace, len(self._namespace), b"".join(names), len(names[0]), len(names), address_of(keys)))
        return keys


def keys_of(keys: Keys) -> tuple[numpy.typing.NDArray[numpy.uint8], bool]:
    """Keys as an array (n, 16) of uint8, and whether one key was given by itself."""
    if isinstance(keys, (list, tuple)):
        if all(isinstance(key, bytes) and len(key) == KEY_BYTES for key in keys):
            return numpy.frombuffer(b"".join(keys), numpy.uint8).reshape(-1, KEY_BYTES), False
    elif isinstance(keys, numpy.ndarray):
        if keys.dtype == numpy.uint8 and keys.shape[-1:] == (KEY_BYTES,) and keys.ndim <= 2:
            if not keys.flags.c_contiguous:  # NumPy before 1.23 sees no words in rows with gaps
                keys = keys.copy()
            return (keys, False) if keys.ndim == 2 else (keys.reshape(1, KEY_BYTES), True)
    elif isinstance(keys, bytes) and len(keys) == KEY_BYTES:
        return numpy.frombuffer(keys, numpy.uint8).reshape(1, KEY_BYTES), True
    raise InvalidError("keys are 16 bytes each: bytes, a list of bytes or an array (n, 16) of uint8; farpage.page_key() and "
                       "farpage.KeySpace make them from names of any length")
