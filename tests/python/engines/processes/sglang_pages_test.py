"""Which pages SGLang's storage finds: of all lengths, those of another process, and none of other
facts. Runs in an environment with SGLang (scripts/test-engines)."""

import dataclasses
import pathlib
import sys
import time
import unittest
from unittest import mock

import numpy
import other_process
import sglang_engine
import torch
from program import Case, wait_until
from sglang_engine import Engine, tokens
from truth import assert_bytes

import farpage
from farpage.engines import sglang_facts

KIB, MIB = 1 << 10, 1 << 20
PAGES = 8
# Of the parts of a page, which the nodes' pages hold: by tokens of a page and the heads' length.
SHAPES = {64 * KIB: (16, 4096), 64 * KIB + 1: (1, 64 * KIB + 1), 96 * KIB: (16, 6144), 1 * MIB - 3: (1, 1 * MIB - 3), 1 * MIB: (64, 16384),
          2 * MIB: (64, 32768), 3 * MIB + 4097: (1, 3 * MIB + 4097), 8 * MIB: (64, 131072)}
PART_BYTES = 64 * KIB  # as sglang_engine has it
LENGTH_OF_A_PROMPT = 1_000_000  # tokens
MOST_CPU_S = 10  # it takes some 1.3 s


def engine_of(address, **options):
    engine = Engine(node=address, **{"timeout_ms": 30_000, "store_timeout_ms": 30_000, **options})
    if not wait_until(lambda: engine.storage._client is not None):
        raise AssertionError(engine.storage._connection.why_not)
    return engine


def pages_of(engine, token_ids):
    """What `Engine.store()` stores, by the tokens alone."""
    indices = engine.host.alloc(len(token_ids))
    engine._fill(engine.host, indices, token_ids[0])
    pages = engine.pages(indices)
    engine.host.free(indices)
    return pages


def assert_loads(engine, token_ids):
    wanted = pages_of(engine, token_ids)
    engine.host.kv_buffer.zero_()
    found, loaded, _, pages, _ = engine.load(token_ids)
    assert (found, loaded) == (len(wanted), len(wanted)), (found, loaded)
    for number, (page, other) in enumerate(zip(pages, wanted)):
        assert_bytes(torch.equal(page.view(torch.uint8), other.view(torch.uint8)), f"page {number}")


def child(address):
    engine = engine_of(address)
    assert engine.store(tokens(1000, PAGES))[2] == PAGES
    other_process.say("stored")
    other_process.hear()
    assert_loads(engine, tokens(50_000, PAGES))
    engine.close()
    other_process.say("loaded")


class SglangPagesTest(Case):
    def engine(self, node, **options):
        engine = engine_of(node.address, **options)
        self.addCleanup(engine.close)
        return engine

    def test_two_processes_share_pages(self):
        node = self.start_node("--page-bytes", str(PART_BYTES), pool="128MiB")
        other, engine = other_process.start(self, pathlib.Path(__file__), node.address), self.engine(node)
        self.assertEqual(engine.store(tokens(50_000, PAGES))[2], PAGES)
        other_process.wait_for(other, "stored")
        assert_loads(engine, tokens(1000, PAGES))
        other_process.go_on(other)
        other_process.wait_for(other, "loaded")
        self.assertEqual(other.wait(60), 0)

    def test_pages_of_all_lengths(self):
        for length, (page_tokens, head_dim) in SHAPES.items():
            node = self.start_node("--page-bytes", str(length), name=str(length), pool="128MiB")
            shape = {"PAGE_TOKENS": page_tokens, "LAYERS": 1, "HEADS": 1, "HEAD_DIM": head_dim, "TOKENS": 4 * page_tokens}
            with self.subTest(length=length), mock.patch.multiple(sglang_engine, **shape):
                engine = self.engine(node, kv_dtype=torch.float8_e5m2, dtype="fp8_e5m2")
                self.assertEqual(engine.storage._pools["kv"].part_bytes, [length, length])
                self.assertEqual(engine.store(tokens(1000, 2))[2], 2)
                assert_loads(engine, tokens(1000, 2))
                engine.close()
            self.end(node)

    def test_parts_of_pages_that_are_one_byte_too_long_are_refused_with_what_to_do(self):
        node = self.start_node("--page-bytes", str(PART_BYTES - 1))
        engine = Engine(node=node.address)
        self.addCleanup(engine.close)
        self.assertTrue(wait_until(lambda: f"--page-bytes {PART_BYTES}" in engine.storage._connection.why_not), engine.storage._connection.why_not)
        self.assertEqual(engine.store(tokens(1000, 2))[2], 0)
        self.assertEqual(engine.load(tokens(1000, 2))[0], 0)
        larger = self.start_node("--page-bytes", str(PART_BYTES + 1), name="larger")
        self.assertEqual(self.engine(larger).store(tokens(1000, 2))[2], 2)

    def test_a_prefix_of_a_million_tokens_takes_little_of_a_cpu(self):
        """With pages of one token each, also where all of them are there."""
        node = self.start_node("--page-bytes", str(PART_BYTES))
        engine = self.engine(node)
        names = [f"{number:064x}" for number in range(LENGTH_OF_A_PROMPT)]
        with mock.patch.object(engine.storage._client, "exists", self.all_there):
            begun_s = time.thread_time()
            self.assertEqual(engine.storage.batch_exists(names), LENGTH_OF_A_PROMPT)
            self.assertLess(time.thread_time() - begun_s, MOST_CPU_S)
        begun_s = time.thread_time()
        self.assertEqual(engine.storage.batch_exists(names), 0)
        self.assertLess(time.thread_time() - begun_s, MOST_CPU_S / 10)
        self.assertEqual(engine.storage.batch_exists_v2(names).kv_hit_pages, 0)

    def all_there(self, keys, *, timeout_s):
        verdicts = numpy.zeros(len(keys), farpage.VERDICT)
        verdicts["verdict"] = farpage.Verdict.READY
        return mock.Mock(wait=lambda: verdicts)

    def test_other_facts_never_find_them(self):
        node = self.start_node("--page-bytes", "256KiB", pool="256MiB")
        models = {}
        for name, data in (("one", b"weights" * 1000), ("two", b"Weights" * 1000)):
            folder = self.folder / "models" / name
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_bytes(data)
            models[name] = folder
        path = self.folder / "model"  # the same path for both
        path.symlink_to(models["one"])
        server = {"model_path": str(path), "kv_cache_dtype": "bfloat16", "revision": "1", "quantization": ""}

        space_of = sglang_facts.space_of

        def found(server=server, rank=None, release=sglang_facts.sglang.__version__, **options):
            """How many of two pages an engine of these facts finds."""
            with mock.patch.object(sglang_facts, "server_facts", lambda: server), mock.patch.object(sglang_facts.sglang, "__version__", release), \
                    mock.patch("farpage.engines.sglang.space_of", lambda config, *more: space_of(dataclasses.replace(config, **(rank or {})), *more)):
                engine = self.engine(node, **options)
            number = engine.load(tokens(1000, 2))[0]
            engine.close()
            return number

        with mock.patch.object(sglang_facts, "server_facts", lambda: server):
            self.assertEqual(self.engine(node).store(tokens(1000, 2))[2], 2)
        self.assertEqual(found(), 2)
        for options in ({"model": "n"}, {"salt": "x"}, {"layout": "page_head"}, {"layout": "layer_first"}, {"interface_v1": 0}, {"dtype": "fp8_e4m3"}):
            self.assertEqual(found(**options), 0, f"wrong bytes, of {options}")
        for fact, value in (("kv_cache_dtype", "fp8_e5m2"), ("revision", "2"), ("quantization", "awq"), ("model_path", str(models["one"]))):
            self.assertEqual(found({**server, fact: value}), 0, f"wrong bytes, of another {fact}")
        for rank in ({"tp_size": 2}, {"tp_size": 2, "tp_rank": 1}, {"pp_size": 2}, {"pp_size": 2, "pp_rank": 1}, {"attn_cp_size": 2, "attn_cp_rank": 1}):
            self.assertEqual(found(rank=rank), 0, f"wrong bytes, of {rank}")
        self.assertEqual(found(release="0.5.99", allow_untested=True), 0, "wrong bytes, of another release of SGLang")
        path.unlink()
        path.symlink_to(models["two"])
        self.assertEqual(found(), 0, "wrong bytes, of other weights at the same path")


if __name__ == "__main__":
    child(sys.argv[1]) if len(sys.argv) > 1 else unittest.main()
