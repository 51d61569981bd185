"""farpage flush: the pages of one namespace go, and no others."""

import signal
import unittest

from program import Case, stop, wait_until

NODE = ("--page-bytes", "4096")
NAMES = ("a", "b", "c")
QWEN, LLAMA = "model=Qwen/Qwen3-8B\ndtype=bfloat16", "model=Llama"


class FlushTest(Case):
    def put(self, facts, *where):
        """Some pages of a client that names these facts."""
        named = ("--set", f"client.facts={facts}") if facts else ()
        result = self.run_program("replay", "generate", "--requests", 50, "--page-bytes", "4096", *named, *where, "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)

    def namespaces(self, node):
        """{a fact "model": (pages, digits)}"""
        return {each["facts"].get("model"): (each["pages"], each["namespace"]) for each in self.status(node)["namespaces"]}

    def flush(self, digits, *where, code=0):
        result = self.run_program("flush", digits, *where)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stdout

    def test_pages_of_one_namespace_go_and_no_others(self):
        node = self.start_node(*NODE)
        where = ("--node", node.socket)
        self.put("", *where)
        without = self.status(node)["slots_live"]
        self.assertGreater(without, 0)
        self.assertEqual(self.status(node)["namespaces"], [])
        self.put(QWEN, *where)
        self.put(LLAMA, *where)
        (qwen, digits), (llama, others) = (self.namespaces(node)[model] for model in ("Qwen/Qwen3-8B", "Llama"))
        self.assertGreater(qwen, 0)
        self.assertEqual(self.status(node)["slots_live"], without + qwen + llama)
        text = self.run_program("status", *where).stdout
        self.assertIn(f"namespace                {digits}: {qwen} pages, ", text)
        self.assertIn("model=Qwen/Qwen3-8B, dtype=bfloat16\n", text)
        self.assertEqual(self.flush(digits, *where), f"{qwen} copies of pages of the namespace {digits} are evicted from 1 of 1 nodes\n")
        self.assertEqual(self.namespaces(node), {"Llama": (llama, others)})
        self.assertEqual(self.status(node)["slots_live"], without + llama)
        self.assertEqual(self.flush(digits, *where),
                         f"0 copies of pages of the namespace {digits} are evicted from 1 of 1 nodes: `farpage status` shows which namespaces have pages\n")
        self.assertIn(f"{llama} copies of pages of ", self.flush(others[:8], *where))
        self.assertEqual(self.status(node)["slots_live"], without)

    def test_32_digits_name_one_namespace_alone(self):
        node = self.start_node(*NODE)
        self.put(QWEN, "--node", node.socket)
        pages, digits = self.namespaces(node)["Qwen/Qwen3-8B"]
        result = self.run_program("flush", digits[:8] + 24 * "f", "--node", node.socket)
        self.assert_fails(result, 1, f"it has pages of {digits}, which has the same tag")
        self.assertEqual(self.status(node)["slots_live"], pages)

    def test_a_node_with_more_slots_than_it_looks_at_in_one_turn(self):
        node = self.start_node("--page-bytes", "64", "--set", "node.lease_ms=1000", pool="8MiB")
        self.assertGreater(self.status(node)["slots"], 5 * 8192)
        filled = self.run_program("replay", "generate", "--requests", 2000, "--page-bytes", "64", "--set", f"client.facts={QWEN}",
                                  "--node", node.socket, "--json", "-")
        self.assertEqual(filled.returncode, 0, filled.stderr)
        pages, digits = self.namespaces(node)["Qwen/Qwen3-8B"]
        self.assertEqual(pages, self.status(node)["slots_live"])
        self.assertIn(f"{pages} copies of pages of ", self.flush(digits, "--node", node.socket))
        self.assertEqual(self.status(node)["slots_live"], 0)

    def test_all_nodes_of_a_list(self):
        listed = f"cluster.nodes={','.join(f'{name}={self.folder}/{name}.sock' for name in NAMES)}"
        nodes = [self.start_node("--set", listed, "--set", f"cluster.name={name}", name=name) for name in NAMES]
        for node in nodes:
            self.assertTrue(wait_until(lambda: all(other["reached"] for other in self.status(node)["fleet"]["others"])))
        result = self.run_program("replay", "generate", "--requests", 50, "--set", listed, "--set", f"client.facts={QWEN}", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        held = [self.namespaces(node)["Qwen/Qwen3-8B"] for node in nodes]
        self.assertEqual(len({digits for _, digits in held}), 1)
        self.assertEqual([pages for pages, _ in held], [self.status(node)["slots_live"] for node in nodes], "replicas keep it")
        nodes[2].kill()
        nodes[2].wait()
        digits = held[0][1]
        alive = held[0][0] + held[1][0]
        result = self.run_program("flush", digits, "--set", listed, "--set", "client.connect_ms=300")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, f"{alive} copies of pages of the namespace {digits} are evicted from 2 of 3 nodes\n")
        self.assertEqual(result.stderr.count("node 'c': "), 1)
        self.assertEqual([self.status(node)["slots_live"] for node in nodes[:2]], [0, 0])

    def test_what_is_no_namespace_and_no_node(self):
        node = self.start_node(*NODE)
        self.assert_fails(self.run_program("flush", "Qwen3", "--node", node.socket), 2, "'Qwen3' is no namespace: give 32 or 8 hexadecimal digits")
        self.assert_fails(self.run_program("flush", "0a0b0c0d"), 2, "no memory node is named", "--node")
        self.assert_fails(self.run_program("flush", "0a0b0c0d", "--node", f"{self.folder}/absent.sock"), 1, "absent.sock")
        stop(node.pid)
        self.assert_fails(self.run_program("flush", "0a0b0c0d", "--node", node.socket), 1, "did not answer within 5 s: is it stopped, or still starting?")
        node.send_signal(signal.SIGCONT)

    def test_facts_that_no_node_takes(self):
        node = self.start_node(*NODE)
        for facts, why in (("Qwen3", "client.facts: the line 'Qwen3' names no fact: write NAME=VALUE"),
                           ("a=1\na=2", "client.facts: the fact 'a' is named twice"),
                           ("\n".join(f"{number}={'x' * 4000}" for number in range(5)), "client.facts have ")):
            result = self.run_program("replay", "generate", "--set", f"client.facts={facts}", "--node", node.socket)
            self.assert_fails(result, 2, why)


if __name__ == "__main__":
    unittest.main()
