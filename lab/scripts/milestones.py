#!/usr/bin/env python3
"""Measures what prefetchers save on synthetic decodes, in virtual time.

It makes the tables of docs/synthetic-decodes.md, docs/placement.md and (`cost`) docs/prefetch.md:
all figures are synthetic. The tables show the parameter sets of configs/decode/held-back, on which
nothing is tuned; the set `reasoning` with fewer milestones, with features that tell less, and with
returns that are spread less or more; the set `normal`; how many tokens a second all this makes, by
link; and what an access costs `learned`. Each figure is the mean over the seeds, with the half of
its 95% interval (Student's) behind it.
"""

import argparse
import csv
import io
import pathlib
import resource
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/scripts"))
from measure import Failure, require, run  # noqa: E402

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs/decode"
HELD_BACK = {"few-milestones": 24, "long-gaps": 24, "more-churn": 32}  # a step's pages of a head
HEADS = 16
ROOMS = (4 / 3, 2)  # budgets, as multiples of what a step demands
PREFETCHERS = ("none", "recency", "previous_selection", "majority", "markov", "milestone", "learned", "random", "oracle")
SWEPT_PREFETCHERS = ("none", "recency", "learned", "random", "oracle")
SWEEPS = {"milestones": (0.35, 0.1, 0), "informativeness": (1, 0.5, 0), "return_spread_steps": (0, 1, 2, 4, 8)}
LINKS_GBPS = (100, 25, 10)
MODEL_PAGE_BYTES = 1 << 20  # of 16 heads, as large as those of a whole model
PLACEMENTS = ("lru", "recency", "importance", "milestone", "milestone:within=1000", "belady")
ROUGH_TIERS = ("latency_us=10:gbps=100:pages=1000", "latency_us=100:gbps=25:bits=4")
SCORES = ("lru", "importance", "milestone", "reuse_rate")
T_95 = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
COST_RUNS = 5
LONGEST_S = 3600  # a million tokens, sixteen times


class Runs:
    """Replays of one synthetic decode with several seeds, by budget and prefetcher.

    It has the rows of their CSV, and columns computed from them.
    """

    def __init__(self, options, folder, parameters, pages_wanted, prefetchers, settings=(), way=()):
        self.budgets = [round(room * HEADS * pages_wanted) for room in ROOMS]
        self.rows = {}
        for seed in options.seeds:
            trace = folder / "decode.trace"
            generate(options.farpage_lab, trace, folder, parameters, [*settings, f"seed={seed}", f"tokens={options.tokens}"])
            replayed = replay(options.farpage_lab, trace, self.budgets, prefetchers, way)
            for (budget, prefetcher), row in replayed.items():
                recency = replayed[budget, "recency"]["stall_s"]
                row["cut_of_recency"] = 1 - row["stall_s"] / recency if recency else None
                row["stall_ms"] = row["stall_s"] * 1e3
                self.rows.setdefault((budget, prefetcher), []).append(row)

    def cell(self, budget, prefetcher, column, digits=3):
        """Mean ± half of the interval; a dash where rows lack it, or nothing was fetched ahead."""
        rows = self.rows[budget, prefetcher]
        values = [row[column] for row in rows if row.get(column) is not None]
        if len(values) < len(rows) or (column in ("accuracy", "lift", "coverage") and not any(row["prefetches"] for row in rows)):
            return ""
        return interval(values, digits)


def interval(values, digits):
    """Their mean, and half of its 95% interval."""
    half = T_95[len(values)] * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.{digits}f} ± {half:.{digits}f}".replace("-", "−")


def generate(program, trace, folder, parameters, settings):
    arguments = [argument for setting in settings for argument in ("--set", setting)]
    run([program, "generate", str(parameters), *arguments, "--output", str(trace), "--truth", str(folder / "truth.csv")])


def replay(program, trace, budgets, prefetchers, way=()):
    text = run([program, "prefetch", str(trace), "--format", "access", "--policy", "lru", "--budget", ",".join(map(str, budgets)),
                "--prefetch", ",".join(prefetchers), "--prefetch-pages", "200", *way, "--csv", "-"])
    words = ("trace", "synthetic", "policy", "prefetch", "placement")
    rows = csv.DictReader(io.StringIO(text))
    return {(int(row["budget_pages"]), row["prefetch"]):
            {key: number(value) for key, value in row.items() if key not in words} for row in rows}


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def held_back_table(options, folder, name, pages_wanted):
    runs = Runs(options, folder, CONFIGS / f"held-back/{name}.toml", pages_wanted, PREFETCHERS)
    print(f"\n`{name}` (synthetic):\n\n| budget | prefetcher | hit rate | stall ms | cut | of `recency`'s | of oracle's | accuracy | lift | coverage |\n"
          "|---|---|---|---|---|---|---|---|---|---|")
    for budget in runs.budgets:
        for prefetcher in PREFETCHERS:
            cells = [runs.cell(budget, prefetcher, column, digits) for column, digits in
                     (("hit_rate", 4), ("stall_ms", 1), ("stall_cut", 3), ("cut_of_recency", 3), ("normalised_stall", 3),
                      ("accuracy", 3), ("lift", 1), ("coverage", 3))]
            print(f"| {budget} | `{prefetcher}` | {' | '.join(cells)} |", flush=True)
    for budget in runs.budgets:
        foretold = [runs.cell(budget, "learned", column) for column in ("foretold_pr_auc", "foretold_base_rate", "foretold_off")]
        print(f"\nOf `learned` with {budget}: the area under precision against recall is {foretold[0]}, the base rate {foretold[1]};\n"
              f"probabilities are off by {foretold[2]} on average.")


def sweep_table(options, folder):
    print("\n`reasoning`, swept (synthetic):\n\n| parameter | value | budget | stall ms with none | cut of `learned` | of `recency`'s | accuracy | lift |\n"
          "|---|---|---|---|---|---|---|---|")
    for key, values in SWEEPS.items():
        for value in values:
            runs = Runs(options, folder, "reasoning", 24, SWEPT_PREFETCHERS, [f"{key}={value}"])
            for budget in runs.budgets:
                cells = [runs.cell(budget, "none", "stall_ms", 1)] + [
                    runs.cell(budget, "learned", column) for column in ("stall_cut", "cut_of_recency", "accuracy", "lift")]
                print(f"| `{key}` | {value} | {budget} | {' | '.join(cells)} |", flush=True)


def normal_table(options, folder):
    runs = Runs(options, folder, "normal", 24, PREFETCHERS)
    print("\n`normal` (synthetic):\n\n| budget | prefetcher | stall ms | cut | of `recency`'s | accuracy |\n|---|---|---|---|---|---|")
    for budget in runs.budgets:
        for prefetcher in PREFETCHERS:
            cells = [runs.cell(budget, prefetcher, column, digits) for column, digits in
                     (("stall_ms", 2), ("stall_cut", 3), ("cut_of_recency", 3), ("accuracy", 3))]
            print(f"| {budget} | `{prefetcher}` | {' | '.join(cells)} |", flush=True)


def throughput_table(options, folder):
    print("\nTokens a second, over those of `lru` with `none` (synthetic):\n\n| parameters | budget | Gb/s | tokens/s with `none` | `recency` | `learned` | `oracle` |\n"
          "|---|---|---|---|---|---|---|")
    for name, pages_wanted in HELD_BACK.items():
        for gbps in LINKS_GBPS:
            way = ["--page-bytes", str(MODEL_PAGE_BYTES), "--tier", f"latency_us=10:gbps={gbps}"]
            runs = Runs(options, folder, CONFIGS / f"held-back/{name}.toml", pages_wanted, ("none", "recency", "learned", "oracle"), way=way)
            for budget in runs.budgets:
                cells = [runs.cell(budget, "none", "steps_per_s", 2)] + [
                    runs.cell(budget, prefetcher, "speedup") for prefetcher in ("recency", "learned", "oracle")]
                print(f"| {name} | {budget} | {gbps} | {' | '.join(cells)} |", flush=True)


def placement_table(options, folder):
    trace = folder / "decode.trace"
    print("\nWhere a fifth of the pages fits into a tier of whole numbers, and the rest lies in one of 4 of 16 bits, `lru` near (synthetic):\n\n"
          "| parameters | placement | imprecise accesses | of the mass | stall ms with `learned` |\n|---|---|---|---|---|")
    for name, pages_wanted in HELD_BACK.items():
        rows = {}
        for seed in options.seeds:
            generate(options.farpage_lab, trace, folder, CONFIGS / f"held-back/{name}.toml", [f"seed={seed}", f"tokens={options.tokens}"])
            for row in placed(options.farpage_lab, trace, round(ROOMS[0] * HEADS * pages_wanted), ["lru"], PLACEMENTS, ROUGH_TIERS):
                rows.setdefault(row["placement"], []).append(row)
        for placement in PLACEMENTS:
            means = [interval([float(row[column]) * scale for row in rows[placement]], digits) for column, digits, scale in
                     (("imprecise_share", 4, 1), ("imprecise_mass", 4, 1), ("stall_s", 1, 1e3))]
            print(f"| {name} | `{placement}` | {' | '.join(means)} |", flush=True)


def joint_table(options, folder):
    """One score ranks the near pages and those of the nearer tier, against two scores (B-H3)."""
    trace = folder / "decode.trace"
    print("\nStall of `learned` in s where one score decides what is near and what lies in the nearer tier, and where two do (synthetic):\n\n"
          "| tokens | heads | joint: " + " | ".join(f"`{score}`" for score in SCORES) + " | separate: the best of both | the best joint, over that |\n"
          "|---|---|" + "---|" * len(SCORES) + "---|---|")
    for tokens, layers in ((1 << 17, 4), (1 << 20, 1)):
        heads = 4 * layers
        generate(options.farpage_lab, trace, folder, "reasoning", [f"seed={options.seeds[0]}", f"tokens={tokens}", f"layers={layers}"])
        pages = tokens // 16 * heads
        tiers = [f"latency_us=10:gbps=100:pages={pages // 32}", "latency_us=100:gbps=25"]
        rows = placed(options.farpage_lab, trace, round(ROOMS[0] * heads * 24), SCORES, SCORES, tiers)
        stall = {(row["policy"], row["placement"]): float(row["stall_s"]) for row in rows}
        joint = [stall[score, score] for score in SCORES]
        near, below = min(((near, below) for near in SCORES for below in SCORES if near != below), key=stall.get)
        best = stall[near, below]
        print(f"| {tokens} | {heads} | {' | '.join(f'{each:.2f}' for each in joint)} | {best:.2f}: `{near}` near, `{below}` below | {min(joint) / best:.3f} |", flush=True)


def placed(program, trace, budget, policies, placements, tiers):
    way = [argument for tier in tiers for argument in ("--tier", tier)]
    text = run([program, "policies", str(trace), "--format", "access", "--policy", ",".join(policies), "--budget", str(budget),
                "--prefetch", "learned", "--prefetch-pages", "200", *way, "--placement", ",".join(placements), "--csv", "-"], LONGEST_S)
    return list(csv.DictReader(io.StringIO(text)))


def cpu_ns(program, trace, budget, prefetcher):
    """The least of several runs, an access, of this process's children's time in user mode."""
    took = []
    for _ in range(COST_RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        row = replay(program, trace, [budget], [prefetcher])[budget, prefetcher]
        took.append((resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before) / row["accesses"] * 1e9)
    return min(took)


def cost_table(options, folder):
    trace = folder / "cost.trace"
    generate(options.farpage_lab, trace, folder, "reasoning", [])
    print("\nWhat an access costs, the replay of what is fetched ahead included:\n\n| budget | `none`: ns | `learned`: ns more | `milestone`: ns more |\n|---|---|---|---|")
    for budget in (512, 640, 768):
        none, *others = (cpu_ns(options.farpage_lab, trace, budget, each) for each in ("none", "learned", "milestone"))
        print(f"| {budget} | {none:.0f} | {' | '.join(f'{each - none:.0f}' for each in others)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--farpage-lab", default=str(pathlib.Path(__file__).parents[2] / "build/release/bin/farpage-lab"), metavar="PROGRAM")
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], default=[1, 2, 3, 4, 5], help="2 to 10 of them")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--tables", default="held-back,sweep,normal,throughput,placement,joint,cost")
    options = parser.parse_args()
    require(options.farpage_lab, {})
    if len(options.seeds) not in T_95:
        raise Failure("give 2 to 10 seeds")
    print(f"Seeds {', '.join(map(str, options.seeds))}, {options.tokens} tokens.")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tables = options.tables.split(",")
        if "held-back" in tables:
            for each, pages_wanted in HELD_BACK.items():
                held_back_table(options, folder, each, pages_wanted)
        if "sweep" in tables:
            sweep_table(options, folder)
        if "normal" in tables:
            normal_table(options, folder)
        if "throughput" in tables:
            throughput_table(options, folder)
        if "placement" in tables:
            placement_table(options, folder)
        if "joint" in tables:
            joint_table(options, folder)
        if "cost" in tables:
            cost_table(options, folder)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"milestones: {failure}")
