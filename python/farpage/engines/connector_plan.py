"""What the two sides of the connector tell each other, and its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import farpage
from farpage._library import KEY_BYTES
from farpage.engines.settings import check, refuse_others

MIB = 1 << 20


@dataclasses.dataclass
class Blocks:
    """Of one request: vLLM's block `numbers[i]` holds, or is to hold, what `names[i]` names."""

    request: str
    names: list[bytes]
    numbers: list[int]


@dataclasses.dataclass
class Plan:
    """What the workers do in one step of the scheduler."""

    loads: list[Blocks] = dataclasses.field(default_factory=list)
    stores: list[Blocks] = dataclasses.field(default_factory=list)
    # Finished requests, whose blocks vLLM frees once they were read.
    ending: set[str] = dataclasses.field(default_factory=set)
    # Names of blocks that will be loaded soon.
    announced: list[bytes] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Load:
    """A load that has ended: how many blocks came, and the time until its last answer."""

    blocks: int
    took_s: float


def together(loads: Mapping[str, Load], others: Mapping[str, Load]) -> dict[str, Load]:
    """Of several workers, by request: it has what all of them have, and waits for the slowest."""
    both = {name: Load(min(loads[name].blocks, others[name].blocks), max(loads[name].took_s, others[name].took_s)) for name in loads.keys() & others.keys()}
    return {**loads, **others, **both}


@dataclasses.dataclass(frozen=True)
class Shard:
    """The pages of one worker: its namespace, and how many pages a block has."""

    space: farpage.KeySpace
    parts: int

    def keys(self, names: Iterable[bytes]) -> Any:
        """An array (names, parts, 16) of uint8."""
        ends = [part.to_bytes(2, "little") for part in range(self.parts)]
        return self.space.keys([name + end for name in names for end in ends]).reshape(-1, self.parts, KEY_BYTES)


@dataclasses.dataclass(frozen=True)
class Settings:
    """vLLM's `kv_connector_extra_config`."""

    pages: str = "block"
    timeout_ms: float = 200  # of a lookup, and of a load
    store_timeout_ms: float = 5000
    load_bytes: int = 256 * MIB  # under way at one time
    store_bytes: int = 256 * MIB
    cost_model: bool = False
    prefill_tokens_per_s: float = 0  # 0: measured
    salt: str = ""
    allow_untested: bool = False
    client: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # for farpage.open()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        check(**given)
        ours = {field.name for field in dataclasses.fields(cls)} - {"client"}
        client = {name: value for name, value in given.items() if name not in ours}
        refuse_others("FarpageConnector", client)
        return cls(**{name: value for name, value in given.items() if name in ours}, client=client)

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000
