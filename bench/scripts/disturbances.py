#!/usr/bin/env python3
"""Measures the cost that some fetches cause the others.

disturbances.py [--farpage build/release/bin/farpage] [--runs 5]
                [--far-link build/release/bench/farpage_far_link]
tests/softroce/machine bench/scripts/disturbances.py --cable

Each case runs that often, in turns with its counterpart, and the script judges the medians. The
cases are deadlines that cannot be met, a page with little time behind many, members that are dead,
and stale pages. With --far-link, which takes root, the cases of tcp run once more between two
network namespaces that are a millisecond apart, each way. With --cable the script measures only the
deadlines that cannot be met: over verbs, between two devices of the Soft-RoCE machine whose cable
netem delays by a millisecond, each way. The exit status is 1 if a bound does not hold on a machine
that does nothing else.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from measure import QUIET_SHARE, Failure, bench, free_port, median, memory_node, require, run, running, serving, wait_until_quiet

TOKEN_BYTES = 32
AT_ONCE = 64
PAGE = "4KiB"
POOL = "16MiB"
DEAD = 100
IMPOSSIBLE_SHARE = 0.01
FAR_NODE = "tcp://10.9.0.1:7010"
FAR_DELAY_US = 1000


class Rows:
    """Prints rows, and remembers whether all bounds hold. On a busy machine it judges none."""

    def __init__(self, judges):
        self.judges = judges
        self.holds = True
        print("| case | measured | bound | holds |\n|---|---|---|---|", flush=True)

    def add(self, case, measured, bound, holds):
        self.holds &= holds or not self.judges
        verdict = ("yes" if holds else "**no**") if self.judges else "not judged"
        print(f"| {case} | {measured} | {bound} | {verdict} |", flush=True)


class Wire:
    """Node and client of tcp, side by side."""

    address = None  # of the node: any

    def __init__(self, program, token, folder):
        self.program, self.token, self.folder = program, token, folder

    @contextlib.contextmanager
    def node(self):
        with memory_node(self.program, "tcp", self.folder, "--pool-bytes", "64MiB", "--page-bytes", PAGE, "--token-file", self.token,
                         "--set", "node.reuse_ms=1000", address=self.address, inside=self.inside(0)) as (address, _):
            yield address

    def fetch(self, address, seconds, *arguments):
        return json.loads(run([*self.inside(1), self.program, "bench", "fetch", "--node", address, "--token-file", self.token,
                               "--page-bytes", PAGE, "--pool-bytes", POOL, "--batch", "1", "--depth", str(AT_ONCE),
                               "--seconds", str(seconds), *map(str, arguments), "--json", "-"]))

    def inside(self, _end):
        """The words of a command that runs another one at that end."""
        return ()


class FarWire(Wire):
    """Node and client in two network namespaces, the ends of a link that is running."""

    address = FAR_NODE

    def __init__(self, program, token, folder, link):
        super().__init__(program, token, folder)
        word, *self.ends = link.stdout.readline().split()
        if word != "ready":
            raise Failure("the far link did not start")

    def inside(self, end):
        return ("nsenter", "-n", "-t", self.ends[end])


class Cable:
    """Node and client of verbs, at the ends of a cable that netem makes longer."""

    # Devices of the Soft-RoCE machine: the client's, and the node's.
    ends = {"v0": "rxe0", "w0": "rxe2"}
    settings = ("--set", "client.connect_ms=20000", "--set", "client.staging_bytes=1MiB")

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        for end in self.ends:
            run(["tc", "qdisc", "replace", "dev", end, "root", "netem", "limit", "100000", "delay", f"{FAR_DELAY_US}us"])

    @contextlib.contextmanager
    def node(self):
        with memory_node(self.program, "verbs", self.folder, "--pool-bytes", "64MiB", "--page-bytes", PAGE,
                         "--set", f"rdma.devices={self.ends['w0']}", "--set", "node.reuse_ms=1000") as (address, _):
            yield address

    def fetch(self, address, seconds, *arguments):
        return bench(self.program, "fetch", "--backend", "verbs", "--node", address, "--set", f"rdma.devices={self.ends['v0']}",
                     *self.settings, "--page-bytes", PAGE, "--pool-bytes", POOL, "--batch", 1, "--depth", AT_ONCE, "--seconds", seconds,
                     *arguments)


def measure_impossible(rows, wire, name, options):
    """One fetch in a hundred has a tenth of the time that the others take."""
    with wire.node() as address:
        pairs = [(wire.fetch(address, options.seconds),
                  wire.fetch(address, options.seconds, "--impossible-share", IMPOSSIBLE_SHARE)) for _ in range(options.runs)]
    without, beside = ([pair[i] for pair in pairs] for i in (0, 1))
    rate = median(beside, lambda it: it["pages_per_s"]) / median(without, lambda it: it["pages_per_s"])
    p99 = median(beside, lambda it: it["fetch_us"]["p99"]) / median(without, lambda it: it["fetch_us"]["p99"])
    ended = sum(it["channels_ended"] for it in beside)
    case = f"{name}: 64 at once, 1% with a deadline that cannot be met"
    rows.add(f"{case}: channels ended", str(ended), "0", ended == 0)
    rows.add(f"{case}: throughput of the others", f"{rate:.3f} ×", "≥ 0.95 ×", rate >= 0.95)
    rows.add(f"{case}: p99 of the others", f"{p99:.3f} ×", "≤ 1.05 ×", p99 <= 1.05)


def measure_tight(rows, wire, name, options):
    """All have the time that 999 of 1,000 took just before."""
    shares = []
    with wire.node() as address:
        for _ in range(options.runs):
            free = wire.fetch(address, options.seconds)
            tight = wire.fetch(address, options.seconds, "--deadline-us", int(free["fetch_us"]["p999"]))
            shares.append(tight["verdicts"]["ready"] / (tight["verdicts"]["ready"] + tight["verdicts"]["recompute"]))
    share = statistics.median(shares)
    rows.add(f"{name}: all with the 99.9th percentile as their deadline: ready", f"{100 * share:.2f}%", "≥ 99%", share >= 0.99)


def measure_urgent(rows, program, options):
    for backend, bound_us in (("tcp", 1500), ("shm", 500)):
        runs = [bench(program, "urgent", "--backend", backend) for _ in range(options.runs)]
        behind = median(runs, lambda it: it["behind_us"]["p50"])
        alone = median(runs, lambda it: it["alone_us"]["p50"])
        others = median(runs, lambda it: it["others_us"]["p50"])
        ended = sum(it["channels_ended"] for it in runs)
        rows.add(f"{backend}: one page of 64 KiB with 2 ms, behind 1,024 with a second",
                 f"{behind / 1e3:.2f} ms (alone {alone / 1e3:.3f} ms, the others {others / 1e3:.1f} ms), {ended} channels ended",
                 f"≤ {bound_us / 1e3:.1f} ms", behind <= bound_us and ended == 0)


def measure_stale(rows, program, options):
    runs = [bench(program, "stale", "--backend", "shm", "--lanes", 4, "--seconds", options.seconds) for _ in range(options.runs)]
    wait_ms = median(runs, lambda it: it["callback_wait_max_us"]) / 1e3
    looks = sum(it["unreachable_looks"] for it in runs)
    rows.add("shm, 4 lanes of stale pages: the longest wait of a callback", f"{wait_ms:.2f} ms, {looks} looks without a lease", "≤ 10 ms",
             wait_ms <= 10 and looks == 0)


@contextlib.contextmanager
def silent_hosts(count):
    """Addresses where no process answers: the queue of connections to accept is full."""
    with contextlib.ExitStack() as stack:
        addresses = []
        for _ in range(count):
            server = stack.enter_context(socket.socket())
            server.bind(("127.0.0.1", 0))
            server.listen(0)
            stack.enter_context(socket.create_connection(server.getsockname()))
            addresses.append("tcp://127.0.0.1:%d" % server.getsockname()[1])
        yield addresses


def measure_connect(rows, program, token, folder, options):
    """Times a client's first lane from the start of its program, while most members are silent."""
    with silent_hosts(DEAD) as dead:
        own = f"tcp://127.0.0.1:{free_port()}"
        listed = ",".join([f"alive={own}", *(f"dead{i}={address}" for i, address in enumerate(dead))])
        members = ["--token-file", token, "--set", f"cluster.nodes={listed}", "--set", "cluster.replicas=1"]
        node = [program, "node", "--listen", own, "--state", f"{folder}/dead.state", "--pool-bytes", "16MiB", "--page-bytes", PAGE, *members,
                "--set", "cluster.name=alive"]
        with serving(node, int(own.rpartition(":")[2])):
            took_s = []
            for _ in range(options.runs):
                begun = time.monotonic()
                with running([program, "bench", "idle", "--clients", 1, *members, "--set", f"cluster.page_bytes={PAGE}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True) as client:
                    if not client.stdout.readline().startswith("ready"):
                        raise Failure(f"the client did not connect: {client.stderr.read()}")
                    took_s.append(time.monotonic() - begun)
    took = statistics.median(took_s)
    rows.add(f"tcp: the first lane of a client, {DEAD} listed members do not answer", f"{1e3 * took:.0f} ms", "≤ 1 s", took <= 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--farpage", default="build/release/bin/farpage")
    parser.add_argument("--far-link", help="farpage_far_link, a target of this project that is built when it is asked for")
    parser.add_argument("--cable", action="store_true", help="only what netem's cable takes, in the Soft-RoCE machine")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    require(options.farpage, {})
    load = wait_until_quiet(30)
    if load > QUIET_SHARE:
        print(f"disturbances: something else takes {100 * load:.0f}% of the cores, and spoils every figure", file=sys.stderr)
    rows = Rows(load <= QUIET_SHARE)
    if options.cable:
        with tempfile.TemporaryDirectory() as folder:
            measure_impossible(rows, Cable(options.farpage, folder), "verbs, 1 ms each way", options)
        return 0 if rows.holds else 1
    with tempfile.TemporaryDirectory() as folder:
        token = os.path.join(folder, "token")
        with open(token, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(TOKEN_BYTES).hex().encode())
        with contextlib.ExitStack() as stack:
            wires = {"tcp, loopback": Wire(options.farpage, token, folder)}
            if options.far_link:
                link = stack.enter_context(running([options.far_link, FAR_DELAY_US], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
                wires["tcp, 1 ms each way"] = FarWire(options.farpage, token, folder, link)
            for name, wire in wires.items():
                measure_impossible(rows, wire, name, options)
                measure_tight(rows, wire, name, options)
        measure_connect(rows, options.farpage, token, folder, options)
    measure_urgent(rows, options.farpage, options)
    measure_stale(rows, options.farpage, options)
    return 0 if rows.holds else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"disturbances: {failure}")
