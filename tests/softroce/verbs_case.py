"""Code that the tests of farpage over verbs share: nodes and clients, each with its own devices."""

import itertools
import json
import pathlib
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli/support"))

from counts import Counts
from faults import Pace
from production import TRACE, require_trace
from program import Case

PACE = Pace(page_bytes=4096, lease_ms=4000, reuse_ms=1000, pages=40, back_s=20)
# The machine takes its time, and to register much most of all.
PATIENT = ("--set", "client.staging_bytes=1MiB", "--set", "client.connect_ms=20000")
SHM = ("--backend", "shm")
TCP = ("--backend", "tcp")


PATIENCE_S = 280


def over(devices):
    """A place: these devices, with commas between."""
    return ("--backend", "verbs", "--set", f"rdma.devices={devices}")


def connections(*devices):
    """The connected queue pairs of these devices, whosever they are."""
    said = subprocess.run(["rdma", "-j", "res", "show", "qp"], check=True, capture_output=True, text=True).stdout
    return [pair for pair in json.loads(said) if pair["type"] == "RC" and pair["ifname"] in devices]


class SchedulingDelay:
    """The most that this process has waited for a processor once it could run."""

    SLEEP_S = 0.005

    def __init__(self):
        self.most_s = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.measure)
        self.thread.start()

    def measure(self):
        begin = time.monotonic()
        while not self.ended.wait(self.SLEEP_S):
            now = time.monotonic()
            self.most_s = max(self.most_s, now - begin - self.SLEEP_S)
            begin = now

    def stop(self):
        self.ended.set()
        self.thread.join()


class VerbsCase(Case):
    """Nodes and clients have these devices, unless a test says `place`."""

    node_place = client_place = over("rxe0")

    def command(self, arguments, place):
        command = super().command(arguments, place)
        if arguments[0] == "status":
            return command
        if arguments[0] == "node":
            return [*command, *(place or self.node_place)]
        return [*command, *PATIENT, *(place or self.client_place)]

    def setUp(self):
        super().setUp()
        self.host = SchedulingDelay()
        self.addCleanup(self.host.stop)

    def assert_in_time(self, deadlines):
        """The machine's processors are threads of a host that may have other things to do."""
        allowed_us = deadlines["allowed_lateness_us"] + self.host.most_s * 1e6
        self.assertLessEqual(deadlines["lateness_max_us"], allowed_us, deadlines)

    def assert_untouched(self, steady):
        """It has noticed nothing of what happened to others."""
        verdicts = steady.result()["verdicts"]
        self.assertEqual(verdicts["recompute"], verdicts["recompute_by_reason"]["miss"])


class FirstRequests(Counts):
    """For a VerbsCase: each page at the start of a production trace has its model's verdict."""

    REQUESTS, PAGES, POOL = 500, 14_162, "512MiB"

    def setUp(self):
        super().setUp()
        require_trace(self)

    def assert_model(self, place, requests, local_pages, *node):
        """On a node of its own, unless the arguments `node` name one."""
        with open(TRACE, encoding="utf-8") as file:
            ids = [json.loads(line)["hash_ids"] for line in itertools.islice(file, requests)]
        result = self.run_program(
            "replay", TRACE, "--requests", requests, "--page-bytes", 4096, "--local-pages", local_pages, "--json", "-",
            *(node or ("--pool-bytes", self.POOL)), place=place, timeout=PATIENCE_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assert_counts(answer, ids, local_pages)
        print(f"{answer['pages_demanded']} pages in {answer['wall_seconds']:.0f} s", flush=True)
        return answer

    def assert_first_requests(self, place, *node):
        answer = self.assert_model(place, self.REQUESTS, 0, *node)
        self.assertEqual(answer["pages_demanded"], self.PAGES)
        return answer
