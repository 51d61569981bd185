"""UCX as a peer: ucp_get with ucx_perftest."""

import dataclasses
import os

from measure import Failure, free_port, run, serving

PACKAGES = {"ucx_perftest": "ucx-utils"}
CALIBRATION = 2_000  # gets
MIB = 1 << 20  # ucx_perftest's MB
# By default UCX drops connections over IPv4 there; our backend turns the check off too.
OVER_SOFT_ROCE = {"UCX_UD_ETH_DGID_CHECK": "n"}


@dataclasses.dataclass
class UcxResult:
    p50_us: float
    bytes_per_s: float
    gets_per_s: float


def parse(text):
    """The last line of numbers: of all iterations."""
    for line in reversed(text.splitlines()):
        if line.startswith("Final:"):
            _, p50, _, _, _, bandwidth, _, rate = line.split()[1:]
            return UcxResult(float(p50), float(bandwidth) * MIB, float(rate))
    raise Failure("ucx_perftest gave no result: " + text.strip()[-200:])


def ucp_get(transports, page_bytes, gets, outstanding, **settings):
    """Gets of one place of memory, so many outstanding; `settings` are more of UCX's variables."""
    port = free_port()
    environment = {**os.environ, "UCX_TLS": transports, **settings}
    with serving(["ucx_perftest", "-p", port], port, env=environment):
        return parse(run(["ucx_perftest", "127.0.0.1", "-p", str(port), "-t", "ucp_get", "-s", str(page_bytes),
                          "-n", str(gets), "-w", str(min(gets, CALIBRATION)), "-O", str(outstanding)], env=environment))


def ucp_get_for(seconds, transports, page_bytes, outstanding):
    rate = ucp_get(transports, page_bytes, CALIBRATION, outstanding).gets_per_s
    return ucp_get(transports, page_bytes, max(CALIBRATION, round(seconds * rate)), outstanding)
