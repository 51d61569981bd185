"""Recorded output of real peers, for the tests of the scripts in bench/."""

import pathlib

SOURCE = pathlib.Path(__file__).resolve().parents[3]


def recorded(name):
    return (pathlib.Path(__file__).parent / "recorded" / name).read_text(encoding="utf-8")
