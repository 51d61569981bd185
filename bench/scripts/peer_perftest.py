"""perftest as a peer, over this machine's RDMA devices: ib_read_lat, ib_read_bw and ib_write_bw.

Each run has a server of its own.
"""

import dataclasses
import math
import re

from measure import Failure, free_port, run, serving

PACKAGES = {"ib_read_lat": "perftest", "ib_read_bw": "perftest", "ib_write_bw": "perftest"}
MIB = 1 << 20  # perftest's MB
GID_INDEX = 1  # the first of a device's IPv4 address, RoCE v2
ATTEMPTS = 5
LIMIT_S = 60  # of each attempt
HEADING = re.compile(r"#\w+|[^\s#][^\[\]#]*\[[^\]]*\]")


@dataclasses.dataclass(frozen=True)
class Path:
    client_device: str
    server_device: str
    server_address: str


def parse(text, heading):
    """The figure below that heading. Without a calibrated clock perftest prints none or nan."""
    lines = text.splitlines()
    for names, figures in zip(lines, lines[1:]):
        row = dict(zip(HEADING.findall(names), figures.split()))
        if heading in row:
            figure = float(row[heading])
            if not math.isfinite(figure) or figure <= 0:
                raise Failure(f"perftest gave {row[heading]} as its {heading}")
            return figure
    raise Failure(f"perftest gave no {heading}: " + text.strip()[-200:])


def first_figure(program, path, heading, page_bytes, count, *options):
    """The first figure of a few attempts, each with a new server."""
    for attempts_left in reversed(range(ATTEMPTS)):
        port = free_port()
        command = [program, "-x", str(GID_INDEX), "-p", str(port), "-s", str(page_bytes), "-n", str(count), *map(str, options)]
        try:
            with serving([*command, "-d", path.server_device], port):
                return parse(run([*command, "-d", path.client_device, path.server_address], LIMIT_S), heading)
        except Failure:
            if attempts_left == 0:
                raise


def read_p50_us(path, page_bytes, reads):
    """Of reads one at a time, until the completion is polled."""
    return first_figure("ib_read_lat", path, "t_typical[usec]", page_bytes, reads)


def read_bytes_per_s(path, page_bytes, reads, in_flight, reads_a_doorbell=1):
    return bytes_per_s("ib_read_bw", path, page_bytes, reads, in_flight, reads_a_doorbell)


def write_bytes_per_s(path, page_bytes, writes, in_flight, writes_a_doorbell=1):
    return bytes_per_s("ib_write_bw", path, page_bytes, writes, in_flight, writes_a_doorbell)


def bytes_per_s(program, path, page_bytes, count, in_flight, a_doorbell):
    return MIB * first_figure(program, path, "BW average[MB/sec]", page_bytes, count, "-t", in_flight, "-l", a_doorbell)
