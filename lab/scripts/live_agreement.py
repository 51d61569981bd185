#!/usr/bin/env python3
"""How near a live replay comes to virtual time, over a link that is slower than the machine.

    lab/scripts/live_agreement.py [--farpage-lab build/release/bin/farpage-lab] [--tokens 600]
        [--backend tcp] [--link 200us,200MB/s] [--compute-us 5000]

The replay is of a synthetic decode, through a node of its own. The machine must have nothing else
to do, since a live replay waits for anything else that occupies the processors.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

PREFETCHERS = ("none", "previous_selection", "markov", "learned", "oracle")
MOST_OFF = 0.10  # of stalls and accuracy


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--farpage-lab", default="build/release/bin/farpage-lab", type=pathlib.Path)
    parser.add_argument("--tokens", default=600, type=int)
    parser.add_argument("--backend", default="tcp", choices=("shm", "tcp"))
    parser.add_argument("--link", default="200us,200MB/s")
    parser.add_argument("--compute-us", default=5000, type=int, help="of a step")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "decode.trace"
        run(arguments.farpage_lab, "generate", "reasoning", "--tokens", arguments.tokens, "--output", trace, "--truth",
            pathlib.Path(folder) / "truth.csv")
        runs = json.loads(run(arguments.farpage_lab, "live", trace, "--format", "access", "--policy", "lru", "--budget", 512, "--prefetch",
                              ",".join(PREFETCHERS), "--prefetch-pages", 200, "--backend", arguments.backend, "--link", arguments.link, "--compute-us", arguments.compute_us,
                              "--json", "-"))["runs"]
    by_run = {(each["prefetch"], each["clock"]): each for each in runs}
    print("| prefetcher | stall s, virtual | live | live / virtual | accuracy, virtual | live | demand p99 ms, virtual | live | wrong bytes |")
    print("|---|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for name in PREFETCHERS:
        virtual, live = by_run[name, "virtual"], by_run[name, "live"]
        ratio = live["stall_s"] / virtual["stall_s"]
        worst = max(worst, abs(ratio - 1))
        if virtual["accuracy"] > 0:
            worst = max(worst, abs(live["accuracy"] / virtual["accuracy"] - 1))
        print(f"| `{name}` | {virtual['stall_s']:.3f} | {live['stall_s']:.3f} | {ratio:.3f} | {virtual['accuracy']:.3f} | {live['accuracy']:.3f} | "
              f"{virtual['demand_p99_ms']:.2f} | {live['demand_p99_ms']:.2f} | {live['wrong_bytes']} |")
    print(f"\nAt most {worst:.1%} off: the bound of {MOST_OFF:.0%} is {'held' if worst <= MOST_OFF else 'missed'}.")


if __name__ == "__main__":
    main()
