#!/usr/bin/env python3
"""Instructions per warm page on the way of a fetch, post and poll, counted by callgrind over sim.

instructions.py [--program build/release/tests/tier/farpage_count_instructions]

A page has 4 KiB, and its payload goes unchecked. The script counts the instructions within
Lane::fetch and Lane::progress, less those of sim's channel when a lane writes to it, posts to it
and polls it, since a device's driver stands there otherwise. The first fetch of each page looks it
up: a second run counts that, and the script takes it off. It measures no time, so a busy host
changes nothing.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

PAGES = 1024
BATCHES = (1, 64, 1024)
EPOCHS = 200
# Callgrind toggles counting at each entry and exit of these: a channel's lie within a lane's.
SIM = "farpage::sim::SimInitiator::"
TOGGLES = ("counted_post", "counted_poll", SIM + "next(*", SIM + "post(*", SIM + "poll(*", SIM + "wait(*")


def count(program, batch, rounds, *epochs):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
                   *(f"--toggle-collect={name}" for name in TOGGLES), program, str(PAGES), str(batch), rounds, *epochs]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{result.stderr}")
        return int(re.search(r"^summary: (\d+)", out.read_text(), re.MULTILINE).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/tests/tier/farpage_count_instructions")
    program = parser.parse_args().program
    if not pathlib.Path(program).exists():
        sys.exit(f"{program} is not there: cmake --preset release && cmake --build build/release --target farpage_count_instructions")
    for batch in BATCHES:
        warm = count(program, batch, "twice") - count(program, batch, "once")
        print(f"{warm / PAGES:.0f} instructions a page, fetched {batch} at a time", flush=True)
    for batch in (1, 64):
        without, beside = (count(program, batch, "twice", epochs) - count(program, batch, "once", epochs) for epochs in ("0", str(EPOCHS)))
        print(f"{beside / PAGES:.0f} at a node of two, {batch} at a time, after {EPOCHS} runs of the other have left: "
              f"{beside / without:.3f} of the {without / PAGES:.0f} before any has", flush=True)


if __name__ == "__main__":
    main()
