"""Facts that a client tells: its nodes show them, and its pages can be flushed by them. Those
that an engine's adapter tells."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

import numpy
from client_case import READY, content, farpage
from farpage.engines.namespaces import MOST_PIECES, PIECE_EVERY, Epoch, page_space, weights_digest
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


class NamespacesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def digest(self, **files):
        """Of a new folder with these files' bytes."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for name, data in files.items():
            (folder / name.replace("_", ".", 1)).write_bytes(data)
        return weights_digest(folder)

    def test_weights_are_told_apart_by_what_is_in_them(self):
        data = content(1, 3 * PIECE_EVERY)
        model = {"model_safetensors": data, "config_json": b'{"rope_theta": 1}', "modeling_py": b"1", "generation_config.json": b"1"}
        digest = self.digest(**model)
        self.assertEqual(self.digest(**model), digest)
        others = [{"model_safetensors": data + b"\0"}, {"config_json": b'{"rope_theta": 2}'}, {"modeling_py": b"2"}, {"more_bin": b""}]
        others += [{"model_safetensors": data[:place] + bytes([data[place] ^ 1]) + data[place + 1:]} for place in (0, len(data) // 2 + 1, len(data) - 1)]
        digests = {self.digest(**{**model, **other}) for other in others}
        self.assertEqual(len(digests | {digest}), len(others) + 1)
        self.assertEqual(self.digest(**{**model, "tokenizer_json": b"x"}), digest)

    def test_a_change_of_a_small_part_of_a_long_file_is_seen(self):
        path = self.folder / "model.gguf"
        with path.open("wb") as file:
            file.truncate(1 << 30)  # sparse
        digests = {weights_digest(path)}
        for start in (1 << 20, 700 << 20):
            with path.open("r+b") as file:
                file.seek(start)
                file.write(b"\1" * 2 * PIECE_EVERY)
            digests |= {weights_digest(path), weights_digest(self.folder)}
        self.assertEqual(len(digests), 3)

    def test_the_pieces_of_any_model_are_as_many(self):
        for name in ("a", "b", "c"):
            with (self.folder / f"{name}.safetensors").open("wb") as file:
                file.truncate(100 << 30)
        with mock.patch.object(os, "pread", wraps=os.pread) as pread:
            weights_digest(self.folder)
        self.assertTrue(MOST_PIECES // 2 < pread.call_count < MOST_PIECES + 10, pread.call_count)

    def test_a_model_of_a_hub_is_the_commit_in_its_cache(self):
        model = self.folder / "hub/models--org--name"
        (model / "refs").mkdir(parents=True)
        (model / "snapshots" / "c3").mkdir(parents=True)
        for revision, commit in (("main", "c1"), ("v2", "c2\n")):
            (model / "refs" / revision).write_text(commit)
        with mock.patch.dict(os.environ, {"HF_HUB_CACHE": str(self.folder / "hub")}):
            found = [weights_digest(*asked) for asked in (("org/name",), ("org/name:Q4_K_M",), ("org/name", "v2"), ("org/name", "c3"), ("org/name", "v4"), ("org/other",),
                                                          ("org/name", "", "/elsewhere"), ("../hub/models",), ("",))]
        self.assertEqual(found, ["c1", "c1", "c2", "c3", "", "", "", "", ""])
        with mock.patch.dict(os.environ, {"HF_HOME": str(self.folder)}):
            os.environ.pop("HF_HUB_CACHE", None)
            self.assertEqual(weights_digest("org/name"), "c1")
        self.assertEqual(weights_digest("org/name", download_folder=str(self.folder / "hub")), "c1")

    def test_a_new_epoch_shares_no_name_with_any_other(self):
        epochs = Epoch(), Epoch()
        names = [*epochs[0].names([b"k"]), *epochs[1].names([b"k"])]
        self.assertEqual(names, [b"k", b"k"])
        for epoch in (*epochs, *epochs):
            epoch.begin()
            names += epoch.names([b"k"])
        self.assertEqual(len(set(names)), 5)

    def test_each_fact_counts(self):
        facts = {"engine": "e", "version": "1", "model": "m", "dtype": "bf16", "layout": "HND", "block_tokens": 16, "ranks": {"tp": 0}}
        others = [{}, {"engine": "f"}, {"version": "2"}, {"model": "n"}, {"dtype": "fp8"}, {"layout": "NHD"}, {"block_tokens": 32},
                  {"ranks": {"tp": 1}}, {"ranks": {"tp": 0, "pp": 0}}, {"salt": "s"}, {"groups": "g"}]
        made = {page_space(**{**facts, **other}).namespace for other in others}
        self.assertEqual(len(made), len(others))
        self.assertEqual(page_space(**facts).namespace, page_space(**facts).namespace)

    def test_values_of_any_length_and_text_count_and_can_be_told(self):
        facts = {"engine": "e", "version": "1", "dtype": "bf16", "layout": "HND", "block_tokens": 16, "ranks": {}}
        layers = ",".join(f"model.layers.{number}.self_attn.attn" for number in range(200))
        made = [page_space(**facts, model=model, groups=groups)
                for model, groups in (("m", layers), ("m", layers + ",x"), ("m\n", "g"), ("m", "g"), ("m\0", "g"), ("m\ud800", "g"), ("Zürich 🂡", "g"))]
        self.assertEqual(len({space.namespace for space in made}), len(made))
        self.assertTrue(all(len(space.lines()) < 1000 for space in made))
        self.assertIn("model=Zürich 🂡\n", made[-1].lines())


if __name__ == "__main__":
    unittest.main()
