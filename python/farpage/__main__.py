"""`python -m farpage` is the command line: the program farpage, which the package carries."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    """Becomes the program. FARPAGE_PROGRAM names another one."""
    program = os.environ.get("FARPAGE_PROGRAM") or str(pathlib.Path(__file__).resolve().parent / "bin" / "farpage")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"farpage: {program} cannot be run ({error.strerror}): install the package farpage, or name a built program in FARPAGE_PROGRAM")


if __name__ == "__main__":
    main()
