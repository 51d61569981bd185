"""Farpage keeps pages of KV caches in the memory of other processes and machines (docs/python.md).

    import farpage

    with farpage.open("/run/farpage.sock") as client:
        client.put(key, source).wait()
        client.fetch(key, destination).wait()

`import farpage` loads nothing else; the first use of a name loads NumPy and the library.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs more than all the rest of this import

if TYPE_CHECKING:
    __version__: str

    from farpage.accesses import Mark as Mark
    from farpage.buffers import Pages as Pages
    from farpage.buffers import Region as Region
    from farpage.fence import Fence as Fence
    from farpage.client import Client as Client
    from farpage.client import open as open
    from farpage.counts import Statistics as Statistics
    from farpage.errors import BusyError as BusyError
    from farpage.errors import Code as Code
    from farpage.errors import DeniedError as DeniedError
    from farpage.errors import ExhaustedError as ExhaustedError
    from farpage.errors import FarpageError as FarpageError
    from farpage.errors import FarpageTimeoutError as FarpageTimeoutError
    from farpage.errors import InvalidError as InvalidError
    from farpage.errors import NotFoundError as NotFoundError
    from farpage.errors import RegisteredError as RegisteredError
    from farpage.errors import UnavailableError as UnavailableError
    from farpage.keys import KeySpace as KeySpace
    from farpage.keys import page_key as page_key
    from farpage.node import Node as Node
    from farpage.ticket import PUT_RESULT as PUT_RESULT
    from farpage.ticket import VERDICT as VERDICT
    from farpage.ticket import Ticket as Ticket
    from farpage.verdicts import Reason as Reason
    from farpage.verdicts import Verdict as Verdict

_MODULES = {
    "accesses": ("Mark",),
    "buffers": ("Pages", "Region"),
    "fence": ("Fence",),
    "client": ("Client", "open"),
    "counts": ("Statistics",),
    "errors": ("BusyError", "Code", "DeniedError", "ExhaustedError", "FarpageError", "FarpageTimeoutError", "InvalidError",
               "NotFoundError", "RegisteredError", "UnavailableError"),
    "keys": ("KeySpace", "page_key"),
    "node": ("Node",),
    "ticket": ("PUT_RESULT", "VERDICT", "Ticket"),
    "verdicts": ("Reason", "Verdict"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


if not TYPE_CHECKING:  # to a type checker, every name would be there

    def __getattr__(name):
        import importlib

        if name == "__version__":
            from farpage._library import c

            return c.version().decode()
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'farpage' has no attribute {name!r}")
        # NumPy warns in interpreters that the library refuses with a sentence.
        importlib.import_module("farpage._library")
        value = globals()[name] = getattr(importlib.import_module(f"farpage.{_MODULE_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    return [*globals(), *__all__, "__version__"]
