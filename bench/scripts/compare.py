"""A comparison: two sides take turns; the ratio of their medians keeps its bound, or does not."""

import argparse
import dataclasses
import json
import statistics
from contextlib import AbstractContextManager
from typing import Callable, Optional

from measure import QUIET_SHARE, Failure, wait_until_quiet

HEADER = "| case | Farpage | peer | ratio | bound | holds |\n|---|---|---|---|---|---|"


@dataclasses.dataclass
class Sides:
    ours: Callable[[], float]
    peer: Callable[[], float]
    note: Optional[Callable[[], str]] = None  # asked once all rounds are done


@dataclasses.dataclass
class Case:
    key: str
    name: str
    peer: str
    unit: str
    bound: Optional[float]  # none: only reported
    sides: Callable[[], AbstractContextManager]
    at_most: bool = False  # the bound is a ratio not to exceed


def judge(ratio, bound, at_most, loads):
    """Whether the bound holds; None where there is none, or where something else was running."""
    if bound is None or max(loads) > QUIET_SHARE:
        return None
    return ratio <= bound if at_most else ratio >= bound


def compare(case, rounds, before_round):
    """`before_round` returns the load of everything else just before the round, 0 to 1."""
    result = {"case": case.key, "name": case.name, "peer": case.peer, "unit": case.unit, "bound": case.bound,
              "at_most": case.at_most, "runs": []}
    try:
        with case.sides() as sides:
            for _ in range(rounds):
                result["runs"].append({"load": before_round(), "ours": sides.ours(), "peer": sides.peer()})
            if sides.note:
                result["note"] = sides.note()
    except Failure as failure:
        return {**result, "failure": str(failure)}
    return concluded(result)


def concluded(result):
    """With the medians of its runs, their ratio and whether the bound holds."""
    runs = result["runs"]
    result["ours"], result["theirs"] = (statistics.median(run[side] for run in runs) for side in ("ours", "peer"))
    result["ratio"] = result["ours"] / result["theirs"]
    result["holds"] = judge(result["ratio"], result["bound"], result["at_most"], [run["load"] for run in runs])
    return result


def verdict(result):
    if "failure" in result:
        return "not measured: " + result["failure"].replace("|", "/")
    noisy = [run["load"] for run in result["runs"] if run["load"] > QUIET_SHARE]
    words = {True: "yes", False: "**no**", None: "reported"}[result["holds"]]
    if noisy:
        words = (f"not judged: something else took up to {100 * max(noisy):.0f}% of the cores before {len(noisy)} of "
                 f"{len(result['runs'])} rounds")
    return f"{words}; {result['note']}" if "note" in result else words


def figure(value, unit):
    return f"{value:.2f} {unit}" if value < 100 else f"{value:.0f} {unit}"


def row(result):
    bound = "none" if result["bound"] is None else f"{'≤' if result['at_most'] else '≥'} {result['bound']:g}"
    figures = ["-", result["peer"], "-"]
    if "ratio" in result:
        figures = [figure(result["ours"], result["unit"]), f"{figure(result['theirs'], result['unit'])} ({result['peer']})",
                   f"{result['ratio']:.2f}"]
    return "| " + " | ".join([result["name"], *figures, bound, verdict(result)]) + " |"


def bar(result):
    """For ratio_chart."""
    return {"name": result["name"], "ratio": result["ratio"], "bound": result["bound"], "at_most": result["at_most"],
            "holds": result["holds"],
            "figures": f"{figure(result['ours'], result['unit'])}; {result['peer']}: {figure(result['theirs'], result['unit'])}"}


def exit_status(results):
    return 0 if results and all(result.get("holds") for result in results if result["bound"] is not None) else 1


def comparison_options(description):
    """Of a program that compares a few cases and nothing else."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--farpage", default="build/release/bin/farpage")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", nargs="+", metavar="CASE", help="all without it")
    parser.add_argument("--json", metavar="FILE")
    return parser


def compare_all(cases, options):
    """Prints a row for each case, and writes the rows where the options say.

    Returns the exit status: 1 if a bound was missed or not judged.
    """
    print(HEADER, flush=True)
    results = []
    for case in cases:
        if options.only and case.key not in options.only:
            continue
        results.append(compare(case, options.rounds, lambda: wait_until_quiet(10)))
        print(row(results[-1]), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rounds": options.rounds, "seconds": options.seconds, "cases": results}, file, indent=2, ensure_ascii=False)
    return exit_status(results)
