"""Which pages LMCache's adapters find: of all lengths, those of another process, and none of other
facts. Runs in an environment with LMCache (scripts/test-engines)."""

import hashlib
import itertools
import pathlib
import sys
import unittest
from unittest import mock

import lmcache_test
import numpy
import other_process
import torch
from lmcache.v1.distributed.api import MemoryLayoutDesc
from lmcache_test import CLASSES, L2, key
from program import Case

KIB, MIB = 1 << 10, 1 << 20
LENGTHS = (64 * KIB, 64 * KIB + 1, 96 * KIB, 1 * MIB - 3, 1 * MIB, 2 * MIB, 3 * MIB + 4097, 8 * MIB)
FACTS = {"dtype": "bfloat16", "chunk_tokens": 256}


def content(name, length):
    return numpy.frombuffer(hashlib.shake_128(name.encode()).digest(length), numpy.uint8)


def fill(l2, who):
    """Pages whose bytes another process knows too."""
    for place in range(lmcache_test.HALF):
        l2.memory[place] = content(f"{who} {place}", l2.memory.shape[1])
    l2.original = l2.memory.copy()


def keys_of(who):
    return [key(number, model=who) for number in range(lmcache_test.HALF)]


class Unlimited:
    """For an adapter in a process without tests."""

    def addCleanup(self, *_):
        pass


def child(address):
    l2 = L2(Unlimited(), "plugin", address, timeout_ms=30_000, store_timeout_ms=30_000)
    fill(l2, "child")
    assert l2.store(keys_of("child"))
    other_process.say("stored")
    other_process.hear()
    fill(l2, "parent")
    assert l2.load(keys_of("parent")) == [True] * lmcache_test.HALF
    l2.close()
    other_process.say("loaded")


class LmcachePagesTest(Case):
    def l2(self, node, form="plugin", **params):
        return L2(self, form, node.address, timeout_ms=30_000, store_timeout_ms=30_000, **params)

    def loads(self, node, form, names, **params):
        """By an adapter of its own."""
        l2 = self.l2(node, form, **params)
        loaded = l2.load(names)
        l2.close()
        return loaded

    def test_two_processes_share_pages(self):
        node = self.start_node("--page-bytes", str(lmcache_test.PAGE_BYTES))
        l2, other = self.l2(node), other_process.start(self, pathlib.Path(__file__), node.address)
        fill(l2, "parent")
        self.assertTrue(l2.store(keys_of("parent")))
        other_process.wait_for(other, "stored")
        fill(l2, "child")
        self.assertEqual(l2.load(keys_of("child")), [True] * lmcache_test.HALF)
        other_process.go_on(other)
        other_process.wait_for(other, "loaded")
        self.assertEqual(other.wait(60), 0)

    def test_pages_of_all_lengths(self):
        for length, form in zip(LENGTHS, itertools.cycle(CLASSES)):
            node = self.start_node("--page-bytes", str(length), name=str(length))
            with self.subTest(length=length), mock.patch.multiple(lmcache_test, PAGE_BYTES=length, PAGES=4, HALF=2):
                l2 = self.l2(node, form)
                self.assertTrue(l2.store([key(1), key(2)]))
                self.assertEqual(l2.load([key(1), key(2)]), [True, True])
                l2.close()
            self.end(node)

    def test_pages_that_are_one_byte_too_long_are_not_stored_and_the_log_says_what_to_do(self):
        node = self.start_node("--page-bytes", str(lmcache_test.PAGE_BYTES - 1))
        for form in CLASSES:
            with self.subTest(form=form), self.assertLogs("farpage", "WARNING") as log:
                l2 = self.l2(node, form)
                self.assertFalse(l2.store([key(1)]))
                self.assertEqual(l2.lookup([key(1)]), [False])
            self.assertIn(f"--page-bytes {lmcache_test.PAGE_BYTES}", log.output[0])
        with mock.patch.object(lmcache_test, "PAGE_BYTES", lmcache_test.PAGE_BYTES - 1):
            self.assertTrue(self.l2(node).store([key(1)]))

    def test_objects_of_another_type_or_shape_are_other_pages(self):
        """Though they have the same length and the operator has given nothing."""
        node = self.start_node("--page-bytes", str(lmcache_test.PAGE_BYTES))
        values = lmcache_test.PAGE_BYTES // 2
        kinds = [(torch.bfloat16, (2, values // 2)), (torch.float16, (2, values // 2)), (torch.bfloat16, (values // 2, 2))]
        l2s = []
        for dtype, shape in kinds:
            l2 = self.l2(node, model="", engine="", layout="", dtype="")
            l2.dtype, l2.shape = dtype, shape
            l2s.append(l2)
        descs = [{0: MemoryLayoutDesc(shapes=[torch.Size(l2.shape)], dtypes=[l2.dtype])} for l2 in l2s]
        self.assertTrue(l2s[0].store([key(1)]))
        # Nothing has moved in the others: what LMCache says of its question counts.
        self.assertEqual([l2.lookup([key(1)], desc) for l2, desc in zip(l2s, descs)], [[True], [False], [False]])
        self.assertEqual([l2.load([key(1)]) for l2 in l2s[1:]], [[False], [False]], "wrong bytes, of another type or shape")
        self.assertEqual(l2s[0].load([key(1)]), [True])
        other = self.l2(node, model="", engine="", layout="", dtype="")
        self.assertEqual([other.lookup([key(1)], descs[0]), other.lookup([key(1)])], [[True], [False]])
        l2s[0].adapter.delete([key(1)])
        self.assertEqual(other.lookup([key(1)], descs[0]), [False])

    def test_other_facts_never_find_them(self):
        node = self.start_node("--page-bytes", str(lmcache_test.PAGE_BYTES))
        models = {}
        for name, data in (("one", b"weights" * 1000), ("two", b"Weights" * 1000)):
            folder = self.folder / "models" / name
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_bytes(data)
            models[name] = folder
        path = self.folder / "model"  # the same path for both
        path.symlink_to(models["one"])
        facts = {**FACTS, "model": str(path)}
        for l2 in [self.l2(node, form, **facts) for form in CLASSES]:
            self.assertTrue(l2.store([key(1)]))
        self.assertEqual([self.loads(node, form, [key(1)], **facts) for form in CLASSES], [[True], [True]])
        others = {"dtype": "float16", "chunk_tokens": 128, "layout": "NHD", "engine": "vllm 0.33", "salt": "x", "model": str(models["one"])}
        for (fact, value), form in zip(others.items(), itertools.cycle(CLASSES)):
            self.assertEqual(self.loads(node, form, [key(1)], **{**facts, fact: value}), [False], f"wrong bytes, of another {fact}")
        others = [key(1, model="n"), key(1, rank=1), key(1, salt="tenant"), key(2)]
        self.assertEqual(l2.load(others), [False] * len(others), "wrong bytes")
        with mock.patch("lmcache.__version__", "0.5.6.post1"):
            self.assertEqual(self.loads(node, "plugin", [key(1)], **facts), [False], "wrong bytes, of another release of LMCache")
        path.unlink()
        path.symlink_to(models["two"])
        self.assertEqual(self.loads(node, "plugin", [key(1)], **facts), [False], "wrong bytes, of other weights at the same path")


if __name__ == "__main__":
    child(sys.argv[1]) if len(sys.argv) > 1 else unittest.main()
