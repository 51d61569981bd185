"""What the tests of farpage over verbs share: nodes and clients, each with a backend and RDMA devices of its own."""

import json
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

from faults import Pace
from program import Case

PACE = Pace(page_bytes=4096, lease_ms=2000, reuse_ms=1000, requests=12_000, pages=40, back_s=20)
SMALL_STAGING = ("--set", "client.staging_bytes=1MiB")  # the machine takes long to register more
SHM = ("--backend", "shm")
TCP = ("--backend", "tcp")


def over(devices):
    """A place: these devices, with commas between."""
    return ("--backend", "verbs", "--set", f"rdma.devices={devices}")


def connections(*devices):
    """The connected queue pairs of these devices, whosever they are."""
    said = subprocess.run(["rdma", "-j", "res", "show", "qp"], check=True, capture_output=True, text=True).stdout
    return [pair for pair in json.loads(said) if pair["type"] == "RC" and pair["ifname"] in devices]


class VerbsCase(Case):
    """Nodes and clients have these devices, unless a test says `place`."""

    node_place = client_place = over("rxe0")

    def command(self, arguments, place):
        command = super().command(arguments, place)
        if arguments[0] == "status":
            return command
        if arguments[0] == "node":
            return [*command, *(place or self.node_place)]
        return [*command, *SMALL_STAGING, *(place or self.client_place)]

    def assert_untouched(self, steady):
        """It has noticed nothing of what happened to others."""
        verdicts = steady.result()["verdicts"]
        self.assertEqual(verdicts["recompute"], verdicts["recompute_by_reason"]["miss"])
