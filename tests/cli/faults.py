"""What happens to a node in the middle of a replay, whatever lies between the two: shared memory, loopback, a network."""

import json
import signal
import time

from program import values_of, wait_until

LEASE_MS = 300
PAGE_BYTES = 65536
NODE = ("--page-bytes", PAGE_BYTES, "--set", f"node.lease_ms={LEASE_MS}", "--set", "node.reuse_ms=20")
LOCAL_PAGES = 24
REQUESTS = 200_000
BACK_S = 5  # from the end of a fault to pages that are ready again


def write_steady_trace(path):
    """Mostly pages that the engine has itself, so that a request without a node lasts about as long as one with it.
    It lasts longer than any test."""
    with open(path, "w", encoding="utf-8") as file:
        for time_ms in range(REQUESTS):
            ids = [*range(16), 1000 + time_ms % 200]
            if time_ms % 8 == 0:
                ids.append(10_000 + time_ms)  # put, and never wanted again
            line = {"timestamp": time_ms, "input_length": 1, "output_length": 1, "hash_ids": ids}
            file.write(json.dumps(line) + "\n")


class Steady:
    """A replay of that trace, looked at while it runs, and interrupted by who asks for its result."""

    def __init__(self, case, address, *arguments, place=None):
        self.case, self.place = case, place
        trace = case.folder / "steady.jsonl"
        if not trace.exists():
            write_steady_trace(trace)
        self.process = case.start_program(
            "replay", trace, "--page-bytes", PAGE_BYTES, "--local-pages", LOCAL_PAGES, "--json", "-", "--node", address,
            "--set", "client.metrics_listen=127.0.0.1:0", *arguments, place=place)
        self.url = case.metrics_url(self.process)

    def metrics(self):
        values = values_of(self.case.scrape(self.url, self.place))
        reasons = ("miss", "stale", "corrupt", "stalled", "unreachable")
        counts = {reason: values[f'farpage_client_recompute_pages_total{{reason="{reason}"}}'] for reason in reasons}
        counts["ready"] = values["farpage_client_ready_pages_total"]
        counts["late"] = values["farpage_client_late_verdicts_total"]
        return counts

    def wait_for(self, kind, more):
        """Until so many more pages have had such a verdict; how long that took."""
        begin = time.monotonic()
        wanted = self.metrics()[kind] + more
        self.case.assertTrue(wait_until(lambda: self.metrics()[kind] >= wanted), self.metrics())
        return time.monotonic() - begin

    def wait_until_back(self, within_s=BACK_S):
        self.case.assertLess(self.wait_for("ready", 200), within_s, self.metrics())

    def result(self):
        self.process.send_signal(signal.SIGINT)
        return self.case.replay_result(self.process, interrupted=True)


class Faults:
    """For a Case that says in `listen` what a node listens on."""

    listen = None

    def start(self):
        node = self.start_node(*NODE, listen=self.listen)
        replay = Steady(self, node.address)
        replay.wait_for("ready", 500)
        return node, replay

    def test_killed(self):
        node, replay = self.start()
        node.kill()
        replay.wait_for("unreachable", 200)
        answer = replay.result()
        self.assertGreater(answer["puts"]["not_acknowledged"], 0)

    def test_stopped_and_continued(self):
        node, replay = self.start()
        node.send_signal(signal.SIGSTOP)
        replay.wait_for("unreachable", 20)
        node.send_signal(signal.SIGCONT)
        replay.wait_until_back()
        replay.result()

    def test_stopped_for_good(self):
        node, replay = self.start()
        node.send_signal(signal.SIGSTOP)
        replay.wait_for("unreachable", 200)
        replay.result()

    def test_killed_and_started_again(self):
        node, replay = self.start()
        node.kill()
        node.communicate()
        replay.wait_for("unreachable", 20)
        again = self.start_node(*NODE, listen=node.address)
        replay.wait_until_back()
        answer = replay.result()
        self.assertGreater(answer["puts"]["not_acknowledged"], 0)
        self.assertGreater(self.status(again)["puts"], 0)  # it went on with the second run
