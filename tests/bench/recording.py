"""What the tests of the programs in bench/ share: their modules and those of python/, and what real peers once wrote."""

import pathlib
import sys

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "bench"), str(SOURCE / "python")]


def recorded(name):
    return (pathlib.Path(__file__).parent / "recorded" / name).read_text(encoding="utf-8")
