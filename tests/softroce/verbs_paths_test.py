#!/usr/bin/env python3
"""A node reports its RDMA ports and a client its paths: in status, metrics and beside results."""

import json
import subprocess
import unittest

from verbs_case import PACE, SHM, VerbsCase, connections, over
from faults import Steady
from program import fetch, values_of, wait_until

PAGE_BYTES = 4096
LINK_BITS_PER_S = 10_000_000_000  # what a veth says
NODE_METRICS = ("--set", "node.metrics_listen=127.0.0.1:0")
TWO = over("rxe0,rxe1")


class PathsTest(VerbsCase):
    def start_shown_node(self, place):
        node = self.start_program("node", "--listen", self.folder / "n.sock", "--state", self.folder / "n.state",
                                  "--pool-bytes", "16MiB", *PACE.node(), *NODE_METRICS, place=place)
        node.url = self.metrics_url(node)
        self.assertIn("serving", node.stderr.readline())
        node.socket = node.address = self.folder / "n.sock"
        return node

    def replay(self, node, place):
        result = self.run_program("replay", "generate", "--requests", 200, "--page-bytes", PAGE_BYTES, "--node", node.address,
                                  "--json", "-", place=place)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_a_client_says_what_went_over_each(self):
        node = self.start_shown_node(TWO)
        answer = self.replay(node, TWO)
        paths = {path["path"]: path for path in answer["paths"]}
        self.assertEqual(set(paths), {"rxe0 -> 10.9.0.1", "rxe1 -> 10.8.0.1"})
        for name, path in paths.items():
            self.assertEqual(path["link_bits_per_s"], LINK_BITS_PER_S, name)
            self.assertGreater(path["reads"], 0, name)
            self.assertGreaterEqual(path["connected"], 1, name)
            self.assertEqual((path["failed"], path["broken"]), (0, 0), name)
        total = lambda what: sum(path[what] for path in paths.values())
        # Beside payloads: headers and buckets. A put writes its payload and touches write a little.
        self.assertGreater(total("read_bytes"), PAGE_BYTES * answer["verdicts"]["ready"])
        self.assertLess(total("read_bytes"), 2 * PAGE_BYTES * answer["fetched"])
        self.assertGreaterEqual(total("write_bytes"), PAGE_BYTES * answer["puts"]["acknowledged"])
        text = self.run_program("bench", "fetch", "--page-bytes", PAGE_BYTES, "--pool-bytes", "1MiB", "--seconds", "0.2",
                                "--node", node.address, place=TWO).stdout
        for name in paths:
            self.assertRegex(text, rf"\n  {name} +10 Gbit/s; \S+ \S+ read in \d+, ")

    def test_a_node_says_what_its_ports_do(self):
        node = self.start_shown_node(TWO)
        before = {port["port"]: port for port in self.status(node)["ports"]}
        self.assertEqual(list(before), ["rxe0 at 10.9.0.1", "rxe1 at 10.8.0.1"])
        self.assertEqual([port["connections"] for port in before.values()], [0, 0])
        beside = Steady(self, node.address, pace=PACE)  # over rxe0 alone
        beside.wait_until_warm()
        ports = lambda: {port["port"]: port for port in self.status(node)["ports"]}
        # Both ends of each are on this device.
        count = lambda: ports()["rxe0 at 10.9.0.1"]["connections"]
        self.assertTrue(wait_until(lambda: 2 * count() == len(connections("rxe0"))), (count(), connections("rxe0")))
        now = ports()
        self.assertGreaterEqual(now["rxe0 at 10.9.0.1"]["connections"], 2)
        self.assertGreater(now["rxe0 at 10.9.0.1"]["immediates"], 0)
        scraped = values_of(fetch(node.url))
        for name, port in now.items():
            self.assertEqual(port["link_bits_per_s"], LINK_BITS_PER_S)
            self.assertIsNone(port["sent_bytes"], "Soft-RoCE counts no bytes")
            self.assertGreaterEqual(port["sent_packets"], before[name]["sent_packets"])
            self.assertEqual(port["refused"], 0)
            label = f'{{port="{name}"}}'
            self.assertEqual(scraped["farpage_port_link_bytes_per_second" + label], LINK_BITS_PER_S / 8)
            self.assertEqual(scraped["farpage_port_connections" + label], port["connections"])
            self.assertNotIn("farpage_port_sent_bytes_total" + label, scraped)
            self.assertGreaterEqual(scraped["farpage_port_sent_packets_total" + label], port["sent_packets"])
        self.assertGreater(now["rxe0 at 10.9.0.1"]["sent_packets"], before["rxe0 at 10.9.0.1"]["sent_packets"])
        text = self.run_program("status", "--node", node.address).stdout
        self.assertRegex(text, r"\n  rxe0 at 10\.9\.0\.1 +10 Gbit/s, [1-9]\d* connections, 0 refused, [1-9]\d* immediates\n"
                               r"    whole port: sent +[1-9]\d* packets\n    received +[1-9]\d* packets\n")
        beside.result()
        self.assertTrue(wait_until(lambda: [port["connections"] for port in self.status(node)["ports"]] == [0, 0]))

    def test_rates_of_a_port(self):
        node = self.start_shown_node(over("rxe0"))
        watch = self.start_program("status", "--node", node.address, "--watch", "--json", "-")
        first = json.loads(watch.stdout.readline())
        self.assertNotIn("per_second", first)
        beside = Steady(self, node.address, pace=PACE)
        beside.wait_until_warm()
        looks = [first]
        while len(looks) < 3 or looks[-1]["per_second"]["ports"][0]["sent_packets"] == 0:
            looks.append(json.loads(watch.stdout.readline()))
        was, now = looks[-2:]
        rate = now["per_second"]["ports"][0]
        self.assertEqual((rate["port"], rate["sent_bytes"]), ("rxe0 at 10.9.0.1", None))
        moved = now["ports"][0]["sent_packets"] - was["ports"][0]["sent_packets"]
        self.assertAlmostEqual(rate["sent_packets"] * now["per_second"]["seconds"], moved, delta=1)

    def test_a_client_s_metrics(self):
        node = self.start_shown_node(over("rxe0"))
        client = self.start_program("bench", "fetch", "--node", node.address, "--page-bytes", PAGE_BYTES, "--pool-bytes", "256KiB",
                                    "--seconds", "600", "--set", "client.metrics_listen=127.0.0.1:0")
        url = self.metrics_url(client)
        shown = lambda name: values_of(fetch(url)).get(f'farpage_client_path_{name}{{path="rxe0 -> 10.9.0.1"}}', 0)
        self.assertTrue(wait_until(lambda: shown("read_bytes_total") > 1 << 20))
        self.assertGreaterEqual(shown("write_bytes_total"), 256 << 10)
        self.assertEqual(shown("connections"), shown("connected_total"))
        self.assertEqual(shown("link_bytes_per_second"), LINK_BITS_PER_S / 8)
        self.assertEqual((shown("failed_total"), shown("broken_total")), (0, 0))

    def test_a_node_that_is_no_rdma_has_none(self):
        node = self.start_shown_node(SHM)
        self.assertEqual(self.status(node)["ports"], [])
        self.assertEqual(self.replay(node, SHM)["paths"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
