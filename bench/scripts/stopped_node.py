"""Shares of a client's warm fetches that are ready while its node's process is stopped.

The first is of the time in which the view lease lasts, the second of the time after it.
"""

import json
import pathlib
import re
import signal
import subprocess
import time
import urllib.request

from measure import Failure, memory_node, running

PAGE_BYTES = 4096
PAGES = 40
LEASE_S = 4
REUSE_MS = 1000
DEADLINE_S = 1  # of a fetch
AFTER_S = 3
START_S = 60
VERDICTS = re.compile(r"^farpage_client_(ready|recompute)_pages_total\S* (\S+)$", re.MULTILINE)


def write_trace(path):
    """The same pages again and again, for longer than any run; a replay holds one at most."""
    with open(path, "w", encoding="utf-8") as file:
        for time_ms in range(100_000):
            file.write(json.dumps({"timestamp": time_ms, "input_length": 1, "output_length": 1, "hash_ids": [time_ms % PAGES]}) + "\n")


class Client:
    def __init__(self, process):
        for line in process.stderr:
            if found := re.search(r"metrics on (http://\S+)", line):
                self.url = found.group(1)
                return
        raise Failure("the client has not started")

    def counts(self):
        """(ready, all) pages so far."""
        with urllib.request.urlopen(self.url, timeout=30) as answer:
            counts = {"ready": 0, "recompute": 0}
            for kind, count in VERDICTS.findall(answer.read().decode()):
                counts[kind] += float(count)
        return counts["ready"], sum(counts.values())

    def wait_until_warm(self):
        end = time.monotonic() + START_S
        while self.counts()[0] < 2 * PAGES:
            if time.monotonic() > end:
                raise Failure(f"the client has not fetched its pages twice within {START_S} s")

    def until(self, end):
        """The last counts that were there by then."""
        last = now = self.counts()
        while time.monotonic() <= end:
            last, now = now, self.counts()
        return last


def gained(before, after):
    ready, pages = (later - sooner for sooner, later in zip(before, after))
    if pages == 0:
        raise Failure("the client has fetched nothing meanwhile")
    return ready, pages


def stopped_node(program, backend, folder, node_needs, client_needs):
    """(ready, all) of the fetches in the first half of the lease, and of those after its end."""
    trace = f"{folder}/steady.jsonl"
    write_trace(trace)
    settings = ("--pool-bytes", "16MiB", "--page-bytes", str(PAGE_BYTES), "--set", f"node.lease_ms={1000 * LEASE_S}",
                "--set", f"node.reuse_ms={REUSE_MS}")
    with memory_node(program, backend, folder, *settings, *node_needs) as (node, process):
        replay = [pathlib.Path(program).parent / "farpage-lab", "replay", trace, "--backend", backend, "--node", node, "--page-bytes", PAGE_BYTES, "--local-pages", 1,
                  "--deadline-ms", 1000 * DEADLINE_S, "--set", "client.metrics_listen=127.0.0.1:0", *client_needs]
        with running(replay, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as client_process:
            client = Client(client_process)
            client.wait_until_warm()
            process.send_signal(signal.SIGSTOP)
            try:
                stopped = time.monotonic()
                within = gained(client.counts(), client.until(stopped + LEASE_S / 2))
                time.sleep(max(0, stopped + LEASE_S + DEADLINE_S - time.monotonic()))
                begin = client.counts()
                return within, gained(begin, client.until(time.monotonic() + AFTER_S))
            finally:
                process.send_signal(signal.SIGCONT)
