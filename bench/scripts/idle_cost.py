"""Measures the cost of idle clients at a node: its memory, and the latency of one busy client."""

import contextlib
import json
import pathlib
import subprocess
import time

from measure import Failure, bench, memory_node, running

CLIENTS = 1_000
STAGING_BYTES = 4096
MOST_BYTES_PER_CLIENT = 65536 + STAGING_BYTES
BUSY = ["--page-bytes", "64KiB", "--batch", "1", "--depth", "1", "--connections", "1", "--pool-bytes", "64MiB"]
MIB = 1 << 20
SETTLE_S = 3  # until what connecting and leaving leave behind is done
NO_REST_MS = 0  # the default: 1,000 idle clients send 1,000 renewals a second
SOON_REST_MS = 1_000


def parse_memory(text):
    """{"Rss": bytes, "Pss": bytes, ...} of /proc/PID/smaps_rollup."""
    lines = (line.split() for line in text.splitlines()[1:])
    return {fields[0].rstrip(":"): int(fields[1]) * 1024 for fields in lines if fields[-1] == "kB"}


def memory_of(process):
    with open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as file:
        return parse_memory(file.read())


@contextlib.contextmanager
def idle_clients(program, backend, node, rest_ms=NO_REST_MS):
    command = [program, "bench", "idle", "--backend", backend, "--node", node, "--clients", CLIENTS,
               "--set", f"client.staging_bytes={STAGING_BYTES}", "--set", f"client.rest_ms={rest_ms}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with running(command, **pipes) as clients:
        if clients.stdout.readline() != "ready\n":
            raise Failure("the idle clients did not connect: " + clients.communicate()[1].strip())
        yield clients
        _, errors = clients.communicate()
        if clients.returncode != 0:
            raise Failure("the idle clients did not stay: " + errors.strip())


@contextlib.contextmanager
def idle_node(program, backend, folder):
    with memory_node(program, backend, folder, "--pool-bytes", "256MiB", "--page-bytes", "64KiB",
                     "--set", f"node.max_clients={2 * CLIENTS}") as node:
        yield node


def memory(program, backend, folder):
    """Of a fresh node, before and after the clients come."""
    with idle_node(program, backend, folder) as (node, process):
        before = memory_of(process)
        with idle_clients(program, backend, node):
            after = memory_of(process)
    return {"clients": CLIENTS, "staging_bytes_per_client": STAGING_BYTES, "before": before, "after": after,
            "rss_bytes_per_client": (after["Rss"] - before["Rss"]) / CLIENTS}


def memory_sentence(result):
    rss = [result[when]["Rss"] / MIB for when in ("before", "after")]
    pss = [result[when]["Pss"] / MIB for when in ("before", "after")]
    return (f"Memory of a node before and after {result['clients']:,} idle clients: Rss {rss[0]:.0f} and {rss[1]:.0f} MiB, Pss "
            f"{pss[0]:.0f} and {pss[1]:.0f} MiB; {result['rss_bytes_per_client'] / 1024:.1f} KiB a client by Rss, of which its "
            f"staging takes {result['staging_bytes_per_client'] / 1024:.0f} KiB.")


def clients_of(program, node):
    return json.loads(subprocess.run([program, "status", "--node", node, "--json", "-"], check=True, capture_output=True).stdout)["clients"]


def busy_p99_us(program, backend, node, seconds):
    latency = bench(program, "fetch", "--backend", backend, "--node", node, *BUSY, "--seconds", seconds)["fetch_us"]
    if latency["p99"] is None:
        raise Failure(f"{latency['count']} fetches are too few for a p99: choose more --seconds")
    return latency["p99"]


def cpu_s(process):
    """Of the threads that it has now."""
    spent_ns = 0
    for thread in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        spent_ns += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    return spent_ns / 1e9


class BesideIdle:
    """The p99 of a node's one busy client, with and without idle ones, and their CPU time."""

    def __init__(self, program, backend, node, process, seconds, rest_ms):
        self.program, self.backend, self.node, self.process, self.seconds = program, backend, node, process, seconds
        self.rest_ms = rest_ms
        self.idle_share = self.node_share = 0.0

    def with_clients(self):
        with idle_clients(self.program, self.backend, self.node, self.rest_ms) as clients:
            time.sleep(SETTLE_S)
            if self.rest_ms and (left := clients_of(self.program, self.node)):
                raise Failure(f"{left} of the idle clients do not rest after {SETTLE_S} s")
            before = cpu_s(clients), cpu_s(self.process)
            time.sleep(SETTLE_S)
            self.idle_share, self.node_share = ((cpu_s(process) - spent) / SETTLE_S
                                                for process, spent in zip((clients, self.process), before))
            return busy_p99_us(self.program, self.backend, self.node, self.seconds)

    def without(self):
        time.sleep(SETTLE_S)
        return busy_p99_us(self.program, self.backend, self.node, self.seconds)

    def sentence(self):
        return (f"The process of the idle clients takes {100 * self.idle_share:.1f}% of a core, the node "
                f"{100 * self.node_share:.1f}%, before the busy one comes.")
