"""Facts that a client tells: its nodes show them, and its pages can be flushed by them."""

import unittest

import numpy
from client_case import READY, farpage
from program import Case

FACTS = {"model": "Qwen/Qwen3-8B", "dtype": "bfloat16", "where": "Zürich = \"home\" \\ 🂡"}


class FactsTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.start_node("--page-bytes", "4096")

    def put(self, space, **settings):
        client = farpage.open(facts=space, **settings)
        self.addCleanup(client.close)
        keys = space.keys([f"block {number}" for number in range(4)])
        self.assertFalse(client.put(keys, numpy.ones((4, 4096), numpy.uint8), timeout_s=20).wait()["code"].any())
        return client, keys

    def found(self, client, keys):
        return (client.exists(keys, timeout_s=20).wait()["verdict"] == READY).tolist()

    def shown(self):
        return [(each["namespace"], each["facts"], each["pages"]) for each in self.status(self.node)["namespaces"]]

    def test_nodes_show_them_and_flush_by_them(self):
        space = farpage.KeySpace(FACTS)
        client, keys = self.put(space, node=str(self.node.socket))
        digits = space.namespace[:16].hex()
        self.assertEqual(self.shown(), [(digits, FACTS, 4)])
        other, others = self.put(farpage.KeySpace(FACTS, salt="2"), node=str(self.node.socket))
        self.assertEqual(self.run_program("flush", digits, "--node", self.node.socket).returncode, 0)
        self.assertEqual(self.found(client, keys), [False] * 4)
        self.assertEqual(self.found(other, others), [True] * 4)

    def test_beside_a_file(self):
        file = self.folder / "client.toml"
        file.write_text(f'[client]\nnode = "{self.node.socket}"\nfacts = "model=another"\n', encoding="utf-8")
        self.put(farpage.KeySpace(FACTS), config=file)
        self.assertEqual([facts for _, facts, _ in self.shown()], [FACTS])

    def test_facts_that_no_line_tells(self):
        for facts, word in (({b"model": b"\xff"}, "text alone"), ({"a=b": "c"}, "'a=b'"), ({"a": "b\nc"}, "line feeds"), ({"a": "\0"}, "null")):
            space = farpage.KeySpace(facts)
            self.assertEqual(len(space.key("block")), 16)
            with self.assertRaisesRegex(farpage.InvalidError, word):
                farpage.open(str(self.node.socket), facts=space)


    def test_what_is_no_space_is_refused(self):
        for facts in ("model=a", {"model": "a"}):
            with self.assertRaisesRegex(farpage.InvalidError, "no KeySpace"):
                farpage.open(str(self.node.socket), facts=facts)

    def test_beside_a_table(self):
        self.put(farpage.KeySpace(FACTS), client={"node": str(self.node.socket)})
        self.assertEqual([facts for _, facts, _ in self.shown()], [FACTS])


if __name__ == "__main__":
    unittest.main()
