"""Faults of a node in the middle of a replay, over shared memory, loopback, a network or RDMA."""

import signal
import time
import typing

from program import stop, values_of, wait_until

LOCAL_PAGES = 24
STOPPED_S = 10
WARM_S = 1  # of a lease, and no fetch that has begun then is over its deadline yet


class Pace(typing.NamedTuple):
    """Figures that go with the speed of a machine."""

    page_bytes: int = 65536
    lease_ms: int = 300
    reuse_ms: int = 20  # a read that lasts longer is of no use
    requests: int = 200_000  # of a trace that lasts longer than any test
    pages: int = 200  # that it wants again and again
    back_s: float = 5  # from the end of a fault to as many that are ready again

    def node(self):
        return ("--page-bytes", self.page_bytes, "--set", f"node.lease_ms={self.lease_ms}",
                "--set", f"node.reuse_ms={self.reuse_ms}")


NODE = Pace().node()


def write_steady_trace(path, pace, puts):
    """Mostly pages that the engine has, so that a request lasts as long with a node as without."""
    local = ",".join(map(str, range(16)))
    with open(path, "w", encoding="utf-8") as file:
        for time_ms in range(pace.requests):
            # A page that no request reads again.
            put = f",{10_000 + time_ms}" if puts and time_ms % 8 == 0 else ""
            file.write(f'{{"timestamp":{time_ms},"input_length":1,"output_length":1,"hash_ids":[{local},{1000 + time_ms % pace.pages}{put}]}}\n')


class Steady:
    """A replay of that trace, looked at while it runs, and interrupted by who asks for its result.

    Without `puts` it only reads once it is warm. Without an address, `arguments` name the nodes.
    """

    def __init__(self, case, address, *arguments, place=None, pace=Pace(), puts=True):
        self.case, self.place, self.pace = case, place, pace
        trace = case.folder / f"steady-{puts}.jsonl"
        if not trace.exists():
            write_steady_trace(trace, pace, puts)
        self.process = case.start_program(
            "replay", trace, "--page-bytes", pace.page_bytes, "--local-pages", LOCAL_PAGES, "--json", "-", *(("--node", address) if address else ()),
            "--set", "client.metrics_listen=127.0.0.1:0", *arguments, place=place)
        self.url = case.metrics_url(self.process)

    def values(self):
        return values_of(self.case.scrape(self.url, self.place))

    def metrics(self):
        values = self.values()
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

    def wait_until_warm(self):
        self.wait_for("ready", 2 * self.pace.pages)

    def wait_until_back(self, within_s=None):
        """How long that took."""
        seconds = self.wait_for("ready", self.pace.pages)
        self.case.assertLess(seconds, within_s or self.pace.back_s, self.metrics())
        return seconds

    def result(self):
        self.process.send_signal(signal.SIGINT)
        return self.case.replay_result(self.process, interrupted=True)


class Nodes:
    """For a Case that says in `listen` what a node listens on."""

    listen = None
    pace = Pace()

    def start(self, **options):
        node = self.start_node(*self.pace.node(), listen=self.listen)
        replay = Steady(self, node.address, pace=self.pace, **options)
        replay.wait_until_warm()
        return node, replay


class WarmReads(Nodes):
    """Where a node's memory answers for as long as its process is there."""

    pace = Pace(lease_ms=2000)

    def last_until(self, end, replay):
        """The last counts that were there by then."""
        counts = None
        while True:
            later = replay.metrics()
            if time.monotonic() > end:
                self.assertIsNotNone(counts, "this machine takes too long for a scrape")
                return counts
            counts = later

    def test_a_stopped_node_is_read_for_as_long_as_the_lease(self):
        node, replay = self.start(puts=False)
        stop(node.pid)
        stopped = time.monotonic()
        before = replay.metrics()
        meanwhile = self.last_until(stopped + WARM_S, replay)
        gained = {kind: meanwhile[kind] - before[kind] for kind in meanwhile}
        self.assertGreater(gained.pop("ready"), 0, gained)
        self.assertEqual(set(gained.values()), {0}, gained)
        replay.wait_for("unreachable", 20)
        after = replay.metrics()
        gained = {kind: after[kind] - before[kind] for kind in after}
        self.assertEqual([gained[kind] for kind in ("miss", "stale", "corrupt")], [0, 0, 0], gained)
        # A busy machine may make a few late; where reads waited for the process, all would be.
        self.assertGreater(gained["ready"], 10 * gained["stalled"], gained)
        ready = after["ready"]
        time.sleep(max(0, stopped + STOPPED_S - time.monotonic()))  # this long is the fault
        self.assertEqual(replay.metrics()["ready"], ready)
        node.send_signal(signal.SIGCONT)
        replay.wait_until_back()
        replay.result()


class Faults(Nodes):
    def test_killed(self):
        node, replay = self.start()
        node.kill()
        replay.wait_for("unreachable", 200)
        answer = replay.result()
        self.assertGreater(answer["puts"]["not_acknowledged"], 0)

    def test_stopped_and_continued(self):
        node, replay = self.start()
        stop(node.pid)
        replay.wait_for("unreachable", 20)
        node.send_signal(signal.SIGCONT)
        replay.wait_until_back()
        replay.result()

    def test_stopped_for_good(self):
        node, replay = self.start()
        stop(node.pid)
        replay.wait_for("unreachable", 200)
        replay.result()

    def test_killed_and_started_again(self):
        node, replay = self.start()
        node.kill()
        node.communicate()
        replay.wait_for("unreachable", 20)
        again = self.start_node(*self.pace.node(), listen=node.address)
        replay.wait_until_back()
        answer = replay.result()
        self.assertGreater(answer["puts"]["not_acknowledged"], 0)
        self.assertGreater(self.status(again)["puts"], 0)  # it went on with the second run
