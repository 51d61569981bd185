"""Which pages vLLM's tier finds: of all lengths, those of another process, and none of other facts.
Runs in an environment with vLLM (scripts/test-engines)."""

import dataclasses
import pathlib
import sys
import unittest
from unittest import mock

import other_process
import vllm
import vllm_manager
from program import Case, wait_until

from farpage.engines.vllm import space_of

KIB, MIB = 1 << 10, 1 << 20
# Of chunks, all ranks together: vLLM's are multiples of 4 KiB.
LENGTHS = (64 * KIB, 68 * KIB, 96 * KIB, 1 * MIB - 4 * KIB, 1 * MIB, 2 * MIB, 3 * MIB + 4 * KIB, 8 * MIB)
CHUNK_BYTES = 2 * vllm_manager.CHUNK_BYTES
CHUNKS = [0, 1, 2, 3]


class Unlimited:
    """For a tier in a process without tests."""

    def addCleanup(self, *_):
        pass


class Changed:
    """A spec of vLLM's with other facts in its configuration."""

    def __init__(self, spec, facts):
        self.config = dataclasses.replace(spec.config, **facts)


def engine_of(address, case=None, **options):
    engine = vllm_manager.Engine(case or Unlimited(), node=address, **options)
    if not wait_until(lambda: engine.tier._connection.client is not None):
        raise AssertionError(engine.tier._connection.why_not)
    return engine


def evict(engine):
    """All that the CPU tier has."""
    assert engine.idle()
    engine.evict()


def assert_loads(engine, numbers):
    """From the node."""
    evict(engine)
    assert engine.load(numbers) == [True] * len(numbers)  # which compares the bytes


def store(engine, numbers):
    engine.store(numbers)
    assert engine.idle()


def child(address):
    engine = engine_of(address)
    store(engine, CHUNKS)
    other_process.say("stored")
    other_process.hear()
    assert_loads(engine, [100, 101])
    engine.close()
    other_process.say("loaded")


class VllmPagesTest(Case):
    def node_of(self, length, **options):
        return self.start_node("--page-bytes", str(length), pool="128MiB", **options)

    def test_two_processes_share_pages(self):
        node = self.node_of(CHUNK_BYTES)
        other, engine = other_process.start(self, pathlib.Path(__file__), node.address), engine_of(node.address, self)
        store(engine, [100, 101])
        other_process.wait_for(other, "stored")
        assert_loads(engine, CHUNKS)
        other_process.go_on(other)
        other_process.wait_for(other, "loaded")
        self.assertEqual(other.wait(60), 0)

    def test_pages_of_all_lengths(self):
        for length in LENGTHS:
            node = self.node_of(length, name=str(length))
            with mock.patch.object(vllm_manager, "CHUNK_BYTES", length // 2):  # of each rank
                engine = engine_of(node.address, self)
            with self.subTest(length=length), mock.patch.object(vllm_manager, "CHUNK_BYTES", length):
                self.assertEqual(engine.tier._chunk_bytes, length)
                store(engine, CHUNKS)
                assert_loads(engine, CHUNKS)
            engine.close()
            self.end(node)

    def test_chunks_that_are_one_byte_too_long_are_refused_with_what_to_do(self):
        node = self.node_of(CHUNK_BYTES - 1)
        engine = vllm_manager.Engine(self, node=node.address)
        said = f"--page-bytes {CHUNK_BYTES}"
        self.assertTrue(wait_until(lambda: said in engine.tier._connection.why_not), engine.tier._connection.why_not)
        self.assertEqual(engine.load([0]), [False])
        engine = engine_of(self.node_of(CHUNK_BYTES + 1, name="larger").address, self)
        store(engine, CHUNKS)
        assert_loads(engine, CHUNKS)

    def test_other_facts_never_find_them(self):
        node = self.node_of(CHUNK_BYTES)
        models = {}
        for name, data in (("one", b"weights" * 1000), ("two", b"Weights" * 1000)):
            folder = self.folder / "models" / name
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_bytes(data)
            models[name] = folder
        path = self.folder / "model"  # the same path for both
        path.symlink_to(models["one"])
        facts = {"model": str(path)}

        def found(**options):
            engine = engine_of(node.address, self, **{**facts, **options})
            loaded = engine.load(CHUNKS)
            engine.close()
            return loaded

        engine = engine_of(node.address, self, **facts)
        store(engine, CHUNKS)
        self.assertEqual(found(), [True] * 4)
        for other in ({"model": str(models["one"])}, {"dtype": "float16"}, {"rank": 1}, {"blocks": 32}, {"salt": "x"}):
            self.assertEqual(found(**other), [False] * 4, f"wrong bytes, of {other}")
        with mock.patch("vllm.__version__", f"{vllm.__version__}.99"):
            self.assertEqual(found(), [False] * 4, "wrong bytes, of another release of vLLM")
        for layout in ({"kv_cache_layout": "NHD"}, {"canonical_layout": True}, {"replicated_layout": True}):
            with mock.patch("farpage.engines.vllm.space_of", lambda spec, *more, layout=layout: space_of(Changed(spec, layout), *more)):
                self.assertEqual(found(), [False] * 4, f"wrong bytes, of {layout}")
        path.unlink()
        path.symlink_to(models["two"])
        self.assertEqual(found(), [False] * 4, "wrong bytes, of other weights at the same path")


if __name__ == "__main__":
    child(sys.argv[1]) if len(sys.argv) > 1 else unittest.main()
