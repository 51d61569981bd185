"""Redis as a peer: GETs of random keys, each of which has a value, with redis-benchmark."""

import contextlib
import csv
import os
import re
import socket

from measure import Failure, free_port, run, serving

PACKAGES = {"redis-server": "redis-server", "redis-benchmark": "redis-tools", "redis-cli": "redis-tools"}
CALIBRATION = 5_000  # requests
# The least that redis-benchmark takes for its histogram, which therefore counts in steps of 8 µs.
STEP_US = 8
PERCENTILE = re.compile(r"([\d.]+)% <= ([\d.]+) milliseconds \(cumulative count (\d+)\)")


def parse_rate(text):
    """Requests a second, of redis-benchmark --csv."""
    for row in csv.DictReader(text.splitlines()):
        if row.get("test") == "GET":
            return float(row["rps"])
    raise Failure("redis-benchmark gave no line for GET: " + text.strip()[-200:])


def parse_p50_us(text):
    """The median in redis-benchmark's report, interpolated between the two points around it."""
    points = [(float(ms) * 1e3, int(count)) for _, ms, count in
              PERCENTILE.findall(text.partition("Cumulative distribution")[0])]
    if not points:
        raise Failure("redis-benchmark gave no distribution: " + text.strip()[-200:])
    rank = points[-1][1] / 2
    below_us, below = points[0][0] + 1 - STEP_US, 0
    for last_us, count in points:
        edge_us = last_us + 1
        if count >= rank:
            return below_us + (edge_us - below_us) * (rank - below) / (count - below)
        below_us, below = edge_us, count
    raise Failure("redis-benchmark's distribution does not reach its median")


def parse_info(text):
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


class Redis:
    def __init__(self, port, keys, value_bytes):
        self.port = port
        self.keys = keys
        self.value_bytes = value_bytes

    def fill(self):
        """Every key that redis-benchmark may draw, with a value of its own."""
        noise = os.urandom(self.value_bytes)
        with socket.create_connection(("127.0.0.1", self.port)) as connection, connection.makefile("rb") as answers:
            for number in range(self.keys):
                key = b"key:%012d" % number
                value = key + noise[len(key):]
                connection.sendall(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value))
                if (answer := answers.readline()) != b"+OK\r\n":
                    raise Failure(f"redis-server did not take value {number + 1} of {self.keys}: {answer}")

    def info(self):
        return parse_info(run(["redis-cli", "-p", str(self.port), "info", "stats"]))

    def get(self, requests, connections, in_flight, *options):
        """redis-benchmark's output, of GETs all of which found their value."""
        before = self.info()
        text = run(["redis-benchmark", "-p", str(self.port), "-t", "get", "-d", str(self.value_bytes), "-r", str(self.keys),
                    "-n", str(requests), "-c", str(connections), "-P", str(in_flight), *options])
        after = self.info()
        hits, misses = (int(after[key]) - int(before[key]) for key in ("keyspace_hits", "keyspace_misses"))
        if misses > 0 or hits < requests:
            raise Failure(f"of {requests} GETs {hits} found a value and {misses} did not")
        return text

    def rate(self, seconds, connections, in_flight):
        """Requests a second, over about so many seconds."""
        requests = self.requests_for(seconds, connections, in_flight)
        return parse_rate(self.get(requests, connections, in_flight, "--csv"))

    def p50_us(self, seconds, connections, in_flight):
        return parse_p50_us(self.get(self.requests_for(seconds, connections, in_flight), connections, in_flight))

    def requests_for(self, seconds, connections, in_flight):
        count = max(CALIBRATION, 20 * connections * in_flight)
        rate = parse_rate(self.get(count, connections, in_flight, "--csv"))
        return max(count, round(seconds * rate))


@contextlib.contextmanager
def redis(folder, keys, value_bytes):
    port = free_port()
    command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no",
               "--daemonize", "no"]
    with serving(command, port):
        server = Redis(port, keys, value_bytes)
        server.fill()
        yield server
