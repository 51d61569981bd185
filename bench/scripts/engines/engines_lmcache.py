#!/usr/bin/env python3
"""Measures Farpage as LMCache's L2 beside others, with LMCache's own `lmcache bench l2`, in turns.

Needs a release build of farpage, an environment with LMCache (scripts/test-engines lmcache makes
one below ~/.cache/farpage-engines), and Debian's redis-server.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from compare import HEADER, concluded, exit_status, row  # noqa: E402
from measure import Failure, free_port, memory_node, require  # noqa: E402
from measure import run, serving, wait_until_quiet  # noqa: E402

KEY_BYTES, KEYS, IN_FLIGHT, BENCH_ROUNDS = 2 << 20, 32, 2, 5
POOL_BYTES = KEY_BYTES * KEYS * IN_FLIGHT * (BENCH_ROUNDS + 3)
# (ours, what, other, the least ratio)
BOUNDS = (("shm", "Store", "dict", 1.0), ("shm", "Load", "dict", 1.0), ("shm", "Load", "fs_native", 1.2), ("tcp", "Store", "redis", 2.0),
          ("tcp", "Load", "redis", 2.0), ("shm", "Store", "fs_native", None))
SIDES = ("dict", "shm", "fs_native", "tcp", "redis")
NAMES = {"dict": "a Python dict", "fs_native": "fs_native in /dev/shm", "redis": "resp with redis"}
UNITS = f"""
MB/s are 2²⁰ bytes of values a second, as LMCache counts, in {IN_FLIGHT} submissions at a time of {KEYS} keys of {KEY_BYTES >> 20} MiB each: the
median of the medians of {BENCH_ROUNDS} rounds of LMCache's. Farpage checks each page.
"""


class Stores:
    """Each is a context that gives the L2 adapter of LMCache's."""

    def __init__(self, program, folder):
        self._program, self._folder = program, folder

    @contextlib.contextmanager
    def _farpage(self, backend):
        sizes = ["--pool-bytes", str(POOL_BYTES), "--page-bytes", str(KEY_BYTES)]
        with memory_node(self._program, backend, self._folder, *sizes) as (address, _):
            yield {"type": "plugin", "module_path": "farpage.engines.lmcache", "class_name": "FarpageAdapter",
                   "adapter_params": {"node": address, "timeout_ms": 20_000, "store_timeout_ms": 20_000}}

    def shm(self):
        return self._farpage("shm")

    def tcp(self):
        return self._farpage("tcp")

    def dict(self):
        return contextlib.nullcontext({"type": "native_plugin", "module_path": "lmcache_dict", "class_name": "DictConnector"})

    @contextlib.contextmanager
    def fs_native(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as where:
            yield {"type": "fs_native", "base_path": where}

    @contextlib.contextmanager
    def redis(self):
        port = free_port()
        quiet = ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        with serving(["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", self._folder, *quiet], port):
            yield {"type": "resp", "host": "127.0.0.1", "port": port}


def measured(lmcache, adapter, environment):
    """{what: MB a second}"""
    said = run([lmcache, "bench", "l2", "--no-skip-verify", "--num-keys", str(KEYS), "--data-size-kb", str(KEY_BYTES >> 10), "--rounds", str(BENCH_ROUNDS),
                "--in-flight", str(IN_FLIGHT), "--l2-adapter", json.dumps(adapter)], env=environment)
    if "data verified OK" not in said:
        raise Failure(f"{adapter['type']} did not bring what was stored")
    rates = {}
    for what, good in (("Store", "success_keys"), ("Load", "loaded")):
        # The first warms.
        rounds = re.findall(rf"\[{what}\] Round \d+: ([\d.]+) ms, {good}=(\d+)/(\d+)", said)[1:]
        if len(rounds) != BENCH_ROUNDS or any(done != keys for _, done, keys in rounds):
            raise Failure(f"{adapter['type']}: {what} failed")
        rates[what] = KEYS * IN_FLIGHT * (KEY_BYTES >> 20) / (statistics.median(float(milliseconds) for milliseconds, _, _ in rounds) / 1000)
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--farpage", default="build/release/bin/farpage")
    parser.add_argument("--lmcache", default="lmcache", help="the environment's program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=10, help="seconds to wait for a quiet host before each round")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    require(options.farpage, {"redis-server": "redis-server"})
    if shutil.which(options.lmcache) is None:
        sys.exit(f"there is no program {options.lmcache}: scripts/test-engines lmcache makes an environment with it; name its bin/lmcache with --lmcache")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through the blocks that end the servers
    library = pathlib.Path(options.farpage).resolve().parents[1] / "lib/libfarpage.so"
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[2] / 'python'}:{HERE}", "PYTHONDONTWRITEBYTECODE": "1", "FARPAGE_LIBRARY": str(library),
                   "LMCACHE_TRACK_USAGE": "false"}
    runs = []
    with tempfile.TemporaryDirectory(prefix="engines") as folder:
        stores = Stores(options.farpage, folder)
        for number in range(options.rounds):
            rates = {"load": wait_until_quiet(options.patience)}
            for name in SIDES[::-1] if number % 2 else SIDES:
                with getattr(stores, name)() as adapter:
                    rates[name] = measured(options.lmcache, adapter, environment)
            print(f"round {number + 1}: " + ", ".join(f"{name} {rates[name]['Store']:.0f} / {rates[name]['Load']:.0f}" for name in SIDES), flush=True)
            runs.append(rates)
    results = [result_of(runs, *bound) for bound in BOUNDS]
    print(HEADER, *map(row, results), UNITS, sep="\n")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"rounds": runs, "cases": results}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return exit_status(results)


def result_of(runs, ours, what, other, bound):
    pairs = [{"load": rates["load"], "ours": rates[ours][what], "peer": rates[other][what]} for rates in runs]
    return concluded({"case": f"{ours}-{what.lower()}-{other}", "name": f"{what} over {ours}", "peer": NAMES[other], "unit": "MB/s", "bound": bound,
                      "at_most": False, "runs": pairs})


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"engines_lmcache: {failure}")
