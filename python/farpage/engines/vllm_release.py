"""Which releases of vLLM the adapters are for."""

from __future__ import annotations

import farpage

KNOWN = ("0.31", "0.32", "0.33")


def check_version(version: str, allow_untested: bool) -> None:
    if allow_untested or ".".join(version.split(".")[:2]) in KNOWN:
        return
    raise farpage.InvalidError(f"vLLM {version} was not tested with Farpage {farpage.__version__}, and its interfaces change between releases: use "
                               f"{', '.join(KNOWN)}, or set \"allow_untested\": true")
