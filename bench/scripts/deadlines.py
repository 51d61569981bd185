#!/usr/bin/env python3
"""Verdicts and their deadlines in real processes, while memory nodes are stopped and killed.

Three nodes keep two replicas. Over and over one node, two or all of them stand still, some for
longer than their lease, and one is killed and started again. Meanwhile `farpage bench deadlines`
fetches, beside a watchdog thread of its own. The exit status is 1 if a verdict was later than the
watchdog's longest delay. On a machine with other work that says nothing about Farpage.
"""

import argparse
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from measure import Failure, free_port, require, run, running, wait_until_quiet

NAMES = ("a", "b", "c")
LEASE_MS = 1_000
START_S = 30
# Which nodes stand still, and for how long. "kill" ends the first, which starts again after that.
FAULTS = (("stop", "a", 0.1), ("stop", "ab", 0.2), ("stop", "abc", 0.1), ("kill", "b", 0.5), ("stop", "c", 2.5 * LEASE_MS / 1e3))
PAUSE_S = 0.3


class Nodes:
    """They end with the stack."""

    def __init__(self, program, backend, folder, stack):
        self.program, self.backend, self.folder, self.stack = program, backend, folder, stack
        self.addresses = {name: f"tcp://127.0.0.1:{free_port()}" if backend == "tcp" else f"{folder}/{name}.sock"
                          for name in NAMES}
        self.list = ",".join(f"{name}={address}" for name, address in self.addresses.items())
        self.processes = {}
        for name in NAMES:
            self.start(name)
        self.wait_until_all_are_reached()

    def start(self, name):
        command = [self.program, "node", "--backend", self.backend, "--listen", self.addresses[name],
                   "--state", f"{self.folder}/{name}.state", "--pool-bytes", "256MiB", "--page-bytes", "64KiB",
                   "--set", f"cluster.nodes={self.list}", "--set", f"cluster.name={name}", "--set", f"node.lease_ms={LEASE_MS}"]
        ready, said = os.pipe()
        with open(ready, encoding="utf-8") as answer:
            with open(said, "w", encoding="utf-8"):
                self.processes[name] = self.stack.enter_context(
                    running([*command, "--ready-fd", said], pass_fds=[said], stderr=subprocess.DEVNULL))
            line = answer.readline().strip()
        if not line.startswith("ready "):
            raise Failure(f"node {name} did not start: {line or 'it ended without a message'}")

    def wait_until_all_are_reached(self):
        """A put needs both of its replicas."""
        end = time.monotonic() + START_S
        for address in self.addresses.values():
            while not all(other["reached"] for other in self.status(address)["fleet"]["others"]):
                if time.monotonic() > end:
                    raise Failure("the nodes did not reach each other")
                time.sleep(0.05)

    def status(self, address):
        return json.loads(run([self.program, "status", "--node", address, "--json", "-"]))

    def suffer(self, kind, names, seconds):
        if kind == "kill":
            self.processes[names].kill()
            self.processes[names].wait()
            time.sleep(seconds)
            return self.start(names)
        for name in names:
            self.processes[name].send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            for name in names:
                self.processes[name].send_signal(signal.SIGCONT)


def measure(options, backend):
    """(what the bench has measured, how many faults of each kind there were)."""
    with tempfile.TemporaryDirectory(prefix="fp") as folder, contextlib.ExitStack() as stack:
        nodes = Nodes(options.farpage, backend, folder, stack)
        command = [options.farpage, "bench", "deadlines", "--backend", backend, "--set", f"cluster.nodes={nodes.list}",
                   "--batch", options.batch, "--seconds", options.seconds, "--json", "-"]
        bench = stack.enter_context(running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        said = bench.stderr.readline()
        if "filled" not in said:
            raise Failure(f"the nodes were not filled: {said.strip()}")
        faults = {"stop": 0, "kill": 0}
        for kind, names, seconds in itertools.cycle(FAULTS):
            time.sleep(PAUSE_S)
            if bench.poll() is not None:
                break
            nodes.suffer(kind, names, seconds)
            faults[kind] += 1
        output, errors = bench.communicate()
        if not output:
            raise Failure(f"the bench ended without a result: {errors.strip()}")
        return json.loads(output), faults


def judge(answer, faults):
    """Objections to the run. None: every verdict was in time, and a late one would have shown."""
    if answer["wrong_bytes"] > 0:
        yield f"{answer['wrong_bytes']} wrong bytes"
    if not answer["holds"]:
        yield f"{answer['late']} fetches were later than the watchdog ever was"
    if answer["at_deadline"] == 0:
        yield "no fetch was still under way at its deadline: there was nothing to judge"
    if min(faults.values()) == 0:
        yield "not every kind of fault befell the nodes: measure for longer"


def micros(value):
    return "-" if value is None else f"{value:.0f}"


def row(backend, answer, faults, load):
    return (f"| {backend} | {answer['fetches']} | {answer['at_deadline']} | {micros(answer['lateness_us']['p999'])} | "
            f"{micros(answer['lateness_max_us'])} | {micros(answer['watchdog_delay_us']['p999'])} | "
            f"{micros(answer['watchdog_delay_max_us'])} | {answer['late']} | {faults['stop']} / {faults['kill']} | "
            f"{100 * load:.0f}% |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--farpage", default="build/release/bin/farpage", help="the program (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="of each backend (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=128, help="pages a fetch (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for a quiet machine (default: %(default)s)")
    parser.add_argument("--json", help="writes what was measured into this file")
    options = parser.parse_args()
    require(options.farpage, {})
    answers, against = {}, []
    print("| | fetches | judged at the deadline | late, p99.9, µs | most | watchdog, p99.9, µs | most | later than that | stops / kills | others' load before |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for backend in ("shm", "tcp"):
        load = wait_until_quiet(options.patience)
        answer, faults = measure(options, backend)
        answers[backend] = {**answer, "faults": faults, "load_before": load}
        against += [f"{backend}: {what}" for what in judge(answer, faults)]
        print(row(backend, answer, faults, load), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(answers, file, indent=2)
    if against:
        raise SystemExit("\n".join(against))


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(str(error))
