"""iperf3 as a peer: what one TCP stream carries when nothing is done with it."""

import json

from measure import Failure, free_port, run, serving

PACKAGES = {"iperf3": "iperf3"}


def parse(text):
    """Bytes a second that the receiver got."""
    answer = json.loads(text)
    if "error" in answer:
        raise Failure("iperf3: " + answer["error"])
    return answer["end"]["sum_received"]["bits_per_second"] / 8


def stream(seconds):
    port = free_port()
    with serving(["iperf3", "--server", "--bind", "127.0.0.1", "--port", port], port):
        return parse(run(["iperf3", "--client", "127.0.0.1", "--port", str(port), "--time", str(max(1, round(seconds))),
                          "--json"]))
