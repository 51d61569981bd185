"""Metrics for Prometheus: names in the document, the dashboard, and a real Prometheus."""

import json
import re
import shutil
import socket
import subprocess
import unittest
import urllib.error
import urllib.parse

from program import SOURCE, Case, fetch, skip_or_fail, values_of, wait_until

DOCUMENT = SOURCE / "docs" / "metrics.md"
DASHBOARD = SOURCE / "configs" / "grafana.json"
# Settings, and what says less than another that has a panel.
OF_NO_CURVE = {"farpage_fleet_replicas", "farpage_node_push_lanes", "farpage_node_sources", "farpage_node_scrub_passes_total", "farpage_client_push_requests_total",
               "farpage_port_immediates_total", "farpage_port_sent_packets_total", "farpage_port_received_packets_total"}
PATIENCE_S = 60
NODE = ("--page-bytes", "4096", "--set", "node.lease_ms=1000", "--set", "node.metrics_listen=127.0.0.1:0")


def documented():
    """{name: kind} of every row of the document's tables."""
    rows = re.findall(r"^\| `(\w+)(?:\{\w+\})?` \| (\w+)", DOCUMENT.read_text(), re.MULTILINE)
    return dict(rows)


def of_programs():
    """Those that a node or a client shows."""
    return {name: kind for name, kind in documented().items() if not name.startswith(OF_ENGINES)}


def shown(url):
    """{name: kind} of a scrape."""
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", fetch(url), re.MULTILINE))


def values(url):
    return values_of(fetch(url))


# A prefetch lane belongs to an engine, and none of our programs has one:
# tests/tier/ahead/prefetch_failures_test.cc holds its names against the document.
OF_ENGINES = "farpage_prefetch_"
OF_SEVERAL_NODES = ("farpage_fleet_", "farpage_client_node_", "farpage_client_breaker_", "farpage_client_reports_")


class MetricsCase(Case):
    def start_node(self, *arguments, name="node"):
        node = self.start_program("node", "--listen", self.folder / f"{name}.sock", "--state",
                                  self.folder / f"{name}.state", "--pool-bytes", "16MiB", *arguments)
        node.url = self.metrics_url(node)
        self.line_saying(node, "serving")
        node.socket = node.address = self.folder / f"{name}.sock"
        return node

    def start_client(self, node):
        return self.start_client_of("--node", node.socket)

    def start_client_of(self, *nodes):
        client = self.start_program("bench", "fetch", *nodes, "--page-bytes", "4096", "--pool-bytes",
                                    "1MiB", "--seconds", "600", "--set", "client.metrics_listen=127.0.0.1:0",
                                    "--set", "client.facts=model=a")
        client.url = self.metrics_url(client)
        return client


class NamesTest(MetricsCase):
    def test_document_and_scrape_name_the_same(self):
        node = self.start_node(*NODE)
        client = self.start_client(node)
        self.assertEqual({**shown(node.url), **shown(client.url)}, of_programs())
        self.assertTrue(all(name.startswith("farpage_client_") for name in shown(client.url)))

    def test_numbers_are_those_of_status(self):
        node = self.start_node(*NODE)
        replay = self.run_program("replay", "generate", "--requests", "300", "--page-bytes", "4096", "--node",
                                  node.socket, "--json", "-")
        self.assertEqual(replay.returncode, 0, replay.stderr)
        answer = json.loads(replay.stdout)
        status = self.status(node)
        self.assertEqual(status["verdicts"]["ready"], answer["verdicts"]["ready"])
        self.assertEqual(status["verdicts"]["ready_bytes"], 4096 * answer["verdicts"]["ready"])
        self.assertEqual(status["verdicts"]["recompute_by_reason"]["miss"],
                         answer["verdicts"]["recompute_by_reason"]["miss"])
        found = values(node.url)
        self.assertEqual(found["farpage_node_puts_total"], status["puts"])
        self.assertEqual(found['farpage_node_slots{state="live"}'], status["slots_live"])
        self.assertEqual(found["farpage_node_reported_ready_pages_total"], answer["verdicts"]["ready"])
        self.assertEqual(found["farpage_node_epoch"], status["epoch"])

    def test_pushes_are_counted(self):
        node = self.start_node(*NODE)
        bench = self.run_program("bench", "push", "--page-bytes", "4KiB", "--pool-bytes", "1MiB", "--seconds", "0.2",
                                 "--node", node.socket, "--json", "-")
        self.assertEqual(bench.returncode, 0, bench.stderr)
        ready = json.loads(bench.stdout)["verdicts"]["ready"]
        self.assertGreater(ready, 0)
        self.assertTrue(wait_until(lambda: self.status(node)["pushes"]["lanes"] == 0, PATIENCE_S))
        pushes = self.status(node)["pushes"]
        self.assertGreaterEqual(pushes["pages"], ready)
        self.assertEqual(pushes["bytes"], 4096 * pushes["pages"])
        self.assertEqual((pushes["missed"], pushes["refused"]), (0, 0))
        found = values(node.url)
        self.assertEqual(found["farpage_node_pushed_pages_total"], pushes["pages"])
        self.assertEqual(found["farpage_node_pushed_bytes_total"], pushes["bytes"])
        self.assertEqual(found["farpage_node_push_late_pages_total"], pushes["late"])

    def test_a_node_that_ends_while_it_is_asked(self):
        node = self.start_node(*NODE)
        for _ in range(20):
            fetch(node.url)
        address = urllib.parse.urlparse(node.url)
        with socket.create_connection((address.hostname, address.port)) as silent:
            silent.sendall(b"GET /metrics")
            node.terminate()
            _, errors = node.communicate(timeout=30)
        self.assertEqual((node.returncode, errors), (0, ""))


class BadAddressTest(MetricsCase):
    def run_node(self, listen):
        return self.run_program("node", "--listen", self.folder / "n.sock", "--state", self.folder / "n.state",
                                "--pool-bytes", "1MiB", "--set", f'node.metrics_listen="{listen}"')

    def test_what_is_no_address(self):
        for listen in ("9464", "localhost", "::1:9464", "127.0.0.1:70000", "127.0.0.1:http"):
            self.assert_fails(self.run_node(listen), 2, "node.metrics_listen", listen)
            self.assertFalse((self.folder / "n.state").exists(), "nothing has begun")
        result = self.run_program("replay", "generate", "--set", "client.metrics_listen=nowhere")
        self.assert_fails(result, 2, "client.metrics_listen", "127.0.0.1:9464")

    def test_a_name_that_nobody_knows(self):
        self.assert_fails(self.run_node("no-such-host.invalid:9464"), 1, "node.metrics_listen", "no-such-host.invalid",
                          "resolve")

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assert_fails(self.run_node(listen), 1, listen, "in use", "node.metrics_listen")
            self.assertFalse((self.folder / "n.sock").exists())
            result = self.run_program("replay", "generate", "--pool-bytes", "16MiB", "--set",
                                      f"client.metrics_listen={listen}")
            self.assert_fails(result, 1, listen, "in use", "client.metrics_listen")
        self.assert_nothing_left()


class DashboardTest(unittest.TestCase):
    def expressions(self):
        dashboard = json.loads(DASHBOARD.read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield panel["title"], target["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                yield variable["name"], variable["query"]

    def test_its_metrics_are_in_the_document(self):
        known = documented()
        series = set(known)
        for name, kind in known.items():
            if kind == "histogram":
                series |= {name + suffix for suffix in ("_bucket", "_sum", "_count")}
        used = set()
        for title, expression in self.expressions():
            names = set(re.findall(r"\bfarpage_\w+", expression))
            self.assertTrue(names, f"{title}: {expression}")
            self.assertLessEqual(names, series, title)
            used |= names
        self.assertGreater(len(used), 20)
        for family in ("tenant", "fleet", "port"):
            names = {name for name in known if name.startswith(f"farpage_{family}_")} - OF_NO_CURVE
            self.assertTrue(names, family)
            self.assertLessEqual(names, used, family)
        for part in ("push", "scrub", "hedge"):
            self.assertLessEqual({name for name in known if part in name} - OF_NO_CURVE, used, part)

    def test_it_asks_which_data_source(self):
        dashboard = json.loads(DASHBOARD.read_text())
        variables = {variable["name"]: variable["type"] for variable in dashboard["templating"]["list"]}
        self.assertEqual(variables["datasource"], "datasource")
        for panel in dashboard["panels"]:
            self.assertEqual(panel["datasource"]["uid"], "${datasource}", panel["title"])


class PrometheusTest(MetricsCase):
    def setUp(self):
        super().setUp()
        self.program = shutil.which("prometheus")
        if self.program is None:
            skip_or_fail(self, "there is no prometheus here: install Debian's package prometheus")

    def start_prometheus(self, targets):
        config = self.folder / "prometheus.yml"
        jobs = "".join(
            f"  - job_name: {job}\n    static_configs: [{{targets: ['{urllib.parse.urlparse(url).netloc}']}}]\n"
            for job, url in targets.items())
        config.write_text(f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{jobs}")
        process = subprocess.Popen(
            [self.program, f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'data'}",
             "--web.listen-address=127.0.0.1:0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.addCleanup(self.end, process)
        for line in process.stderr:
            found = re.search(r'msg="Listening on" address=(\S+)', line)
            if found:
                api = f"http://{found.group(1)}"
                self.assertTrue(wait_until(lambda: self.is_ready(api), PATIENCE_S))
                return api
        self.fail("prometheus does not serve")

    def is_ready(self, api):
        try:
            return "Ready" in fetch(f"{api}/-/ready")
        except urllib.error.HTTPError:
            return False

    def ask(self, api, expression):
        try:
            answer = json.loads(fetch(f"{api}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
        except urllib.error.HTTPError as error:
            self.fail(f"{expression}: {error.read().decode()}")
        return answer["data"]["result"]

    def test_every_metric_arrives(self):
        node = self.start_node(*NODE)
        client = self.start_client(node)
        api = self.start_prometheus({"node": node.url, "client": client.url})
        # On shm the node does not see its clients' reads. There are no ports, no paths to choose
        # among, and no tenants.
        elsewhere = ("farpage_transport_", "farpage_port_", "farpage_client_path_", "farpage_tenant_", *OF_SEVERAL_NODES)
        expected = {name for name in of_programs() if not name.startswith(elsewhere)}
        expected = {f"{name}_bucket" if documented()[name] == "histogram" else name for name in expected}
        missing = lambda: {name for name in expected if not self.ask(api, name)}
        have_come = wait_until(lambda: not missing(), PATIENCE_S)
        self.assertIsNone(client.poll(), "the client has ended")
        self.assertTrue(have_come, fetch(f"{api}/api/v1/targets?state=active"))
        for begin in elsewhere:
            self.assertEqual(self.ask(api, f'{{__name__=~"{begin}.*"}}'), [])

        for expression in (
            'farpage_node_puts_total == 256', 'farpage_node_slots{state="live"} == 256', 'farpage_node_clients == 1',
            'farpage_client_ready_pages_total > 0', 'farpage_node_reported_ready_pages_total > 0',
            'farpage_client_puts_total{result="acknowledged"} == 256', 'farpage_client_reachable == 1',
            'histogram_quantile(0.5, rate(farpage_client_fetch_seconds_bucket[10s])) > 0',
            'histogram_quantile(0.5, rate(farpage_client_fetch_seconds_bucket[10s])) < 1',
            'sum(up) == 2',
        ):
            self.assertTrue(wait_until(lambda: self.ask(api, expression), PATIENCE_S), expression)

    def test_those_of_several_nodes_arrive(self):
        nodes = f"cluster.nodes=a={self.folder}/a.sock,b={self.folder}/b.sock"
        first, _ = (self.start_node(*NODE, "--set", nodes, "--set", f"cluster.name={name}", name=name) for name in "ab")
        client = self.start_client_of("--set", nodes, "--set", "cluster.page_bytes=4KiB")
        api = self.start_prometheus({"node": first.url, "client": client.url})
        expected = {name for name in documented() if name.startswith(OF_SEVERAL_NODES)}
        missing = lambda: {name for name in expected if not self.ask(api, name)}
        have_come = wait_until(lambda: not missing(), PATIENCE_S)
        self.assertIsNone(client.poll(), "the client has ended")
        self.assertTrue(have_come, fetch(f"{api}/api/v1/targets?state=active"))
        for expression in ('farpage_fleet_replicas == 2', 'farpage_fleet_member_reached == 1',
                           'farpage_fleet_replicated_pages_total + farpage_fleet_applied_pages_total == 256',
                           'sum(farpage_client_node_reachable) == 2'):
            self.assertTrue(wait_until(lambda: self.ask(api, expression), PATIENCE_S), expression)

    def test_the_dashboard_s_expressions_are_understood(self):
        node = self.start_node(*NODE)
        api = self.start_prometheus({"node": node.url})
        self.assertTrue(wait_until(lambda: self.ask(api, "farpage_node_epoch"), PATIENCE_S))
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            for target in panel["targets"]:
                expression = target["expr"].replace("$__rate_interval", "10s")
                expression = expression.replace("$node", ".*").replace("$client", ".*")
                self.ask(api, expression)  # an error is an HTTP status, and raises


if __name__ == "__main__":
    unittest.main()
