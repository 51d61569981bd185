"""FarpageStorage under the prefix tree that SGLang serves with (UnifiedRadixCache). Runs in an
environment with SGLang (scripts/test-engines)."""

import collections
import contextlib
import os
import pathlib
import random
import signal
import sys
import types
import unittest
from unittest import mock

import other_process
import torch
from program import PATIENCE_S, Case, wait_until
from sglang_device import AXES, HEAD_DIM, HEADS, LAYERS, PAGES, WINDOW_PAGES, KvPools, StatePools, WindowPools
from sglang_models import DraftPools, DraftWindowPools, IndexerPools
from sglang_tree import Tree

import farpage

WATCHDOG_S = 30  # of what would not end: sglang_storage_test.py has the deadlines, by its own clock
FIRST = 1000
INJECTED = {"SGLANG_TEST_HICACHE_BACKEND_RANDOM_DELAY": "0.005", "SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE": "0.2"}
ROUNDS = 40
PATIENT = {"timeout_ms": 30_000, "store_timeout_ms": 30_000}


class Fault(Exception):
    pass


class Rounds:
    """Prompts that come as far as faults let them. `came`: how many pages of them did; 0 only of a
    prompt that the node has whole."""

    def __init__(self, case, tree):
        self.case, self.tree, self.chance = case, tree, random.Random("faults")
        self.whole, self.came = set(), set()

    def play(self):
        first = FIRST * self.chance.randrange(1, 4)
        pages, loaded = self.tree.come_back(first)
        self.case.assertEqual(pages, loaded)
        if loaded == PAGES:
            self.whole.add(first)
        if loaded or first in self.whole:
            self.came.add(loaded)
        self.tree.compute(first)
        if self.chance.randrange(3) == 0:
            self.tree.drop(first, self.chance.randrange(PAGES), pool=self.chance.choice([*self.tree.storage._pools]))
            self.whole.discard(first)


class SglangTreeTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.new_node()

    def new_node(self, **options):
        return self.start_node("--page-bytes", "256KiB", pool="256MiB", **options)

    def tree(self, *arguments, **options):
        return Tree(self, options.pop("node", self.node), *arguments, **{**PATIENT, **options})

    # ---- Pages

    def test_prompts_that_were_evicted_come_back_in_each_layout(self):
        for layout in AXES:
            with self.subTest(layout):
                tree = self.tree(layout=layout)
                self.assertEqual(tree.compute(FIRST), PAGES)
                self.assertEqual(tree.storage._client.statistics().puts_acknowledged, PAGES * 2 * (LAYERS if layout == "layer_first" else 1))
                tree.evict(100_000)
                self.assertEqual(tree.load(FIRST), 0)
                self.assertEqual((tree.prefetch(FIRST)[0], tree.load(FIRST)), (PAGES, PAGES))
                tree.close()

    def test_a_dropped_page_ends_the_prefix_there_and_is_computed_and_stored_again(self):
        for layout in AXES:
            with self.subTest(layout):
                tree = self.tree(layout=layout)
                tree.compute(FIRST)
                tree.forget()
                self.assertEqual(tree.drop(FIRST, 5, part=1), 1)
                self.assertEqual((tree.prefetch(FIRST)[0], tree.load(FIRST)), (5, 5))
                self.assertEqual(tree.storage.figures.of("pages"), {"stored": PAGES, "found": 5, "ready": 5})
                self.assertEqual(tree.compute(FIRST), PAGES - 5)
                self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))
                with tree.between(lambda tree=tree: tree.drop(FIRST, 3)):
                    self.assertEqual(tree.come_back(FIRST), (3, 3))
                self.assertEqual(tree.compute(FIRST), PAGES - 3)
                self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))
                tree.close()

    # ---- Side pools

    def test_a_window_comes_back_with_the_pages_and_without_it_the_prefix_is_shorter(self):
        tree = self.tree(WindowPools)
        tree.compute(FIRST)
        self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))
        for pool, page, left in (("kv", 5, 5), ("swa", 6, 6)):
            with self.subTest(pool):
                self.assertEqual(tree.drop(FIRST, page, pool=pool), 1)
                self.assertEqual(tree.come_back(FIRST), (left, left))
                self.assertEqual(tree.compute(FIRST), PAGES - left)
                self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))

    def test_a_window_that_is_nowhere_is_a_miss(self):
        tree = self.tree(WindowPools)
        tree.compute(FIRST)
        with tree.between(lambda: tree.drop(FIRST, PAGES - 1, pool="swa")):
            self.assertEqual(tree.come_back(FIRST), (0, 0))
        for page in range(0, PAGES, WINDOW_PAGES):
            tree.drop(FIRST, page, pool="swa")
        tree.drop(FIRST, 1, pool="swa")
        self.assertEqual(tree.come_back(FIRST), (0, 0))
        self.assertEqual(tree.compute(FIRST), PAGES)
        self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))

    def test_a_state_of_mamba_comes_back_with_the_pages_before_it(self):
        tree = self.tree(StatePools)
        tree.compute(FIRST, PAGES // 2)
        tree.compute(FIRST)
        self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))
        for pool, page in (("mamba", PAGES - 1), ("kv", PAGES - 2)):
            with self.subTest(pool):
                self.assertEqual(tree.drop(FIRST, page, pool=pool), 1)
                self.assertEqual(tree.come_back(FIRST), (PAGES // 2, PAGES // 2))
                self.assertEqual(tree.compute(FIRST), PAGES // 2)
                self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))

    def test_a_state_that_is_nowhere_is_a_miss(self):
        tree = self.tree(StatePools)
        tree.compute(FIRST)
        with tree.between(lambda: tree.drop(FIRST, PAGES - 1, pool="mamba")):
            self.assertEqual(tree.come_back(FIRST), (0, 0))
        self.assertEqual(tree.come_back(FIRST), (0, 0))
        self.assertEqual(tree.compute(FIRST), PAGES)
        self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))

    def test_a_draft_models_kv_and_an_indexers_keys_come_back_with_the_pages_or_the_prefix_ends(self):
        direct = ("--hicache-io-backend", "direct")
        for pools, layout, arguments, names in ((DraftPools, "page_first", (), {"draft": 2}), (DraftPools, "layer_first", direct, {"draft": 2}),
                                                (IndexerPools, "page_first_direct", direct, {"indexer": 1, "draft": 1, "draft_indexer": 1}),
                                                (IndexerPools, "layer_first", direct, {"indexer": 1, "draft": 1, "draft_indexer": 1})):
            with self.subTest(pools.__name__, layout=layout):
                tree = self.tree(pools, layout=layout, arguments=arguments)
                self.assertEqual({name: pool.parts for name, pool in tree.storage._pools.items() if name != "kv"}, names)
                self.assertEqual(tree.compute(FIRST), PAGES)
                self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))
                for name, parts in names.items():
                    self.assertEqual(tree.drop(FIRST, 5, part=parts - 1, pool=name), 1)
                    found = tree.storage.figures.of("pages")["found"]
                    self.assertEqual(tree.come_back(FIRST), (5, 5), name)
                    self.assertEqual(tree.storage.figures.of("pages")["found"], found + 5, name)
                    self.assertEqual(tree.compute(FIRST), PAGES - 5)
                    with tree.between(lambda tree=tree, name=name: tree.drop(FIRST, 3, pool=name)):
                        self.assertEqual(tree.come_back(FIRST), (3, 3), name)
                    self.assertEqual(tree.compute(FIRST), PAGES - 3)
                    self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES), name)
                tree.close()

    def test_a_draft_models_window_comes_back_with_the_window_or_the_prefix_is_shorter(self):
        tree = self.tree(DraftWindowPools)
        tree.compute(FIRST)
        self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))
        self.assertEqual(tree.drop(FIRST, 6, pool="draft_swa"), 1)
        self.assertEqual(tree.come_back(FIRST), (6, 6))
        self.assertEqual(tree.compute(FIRST), PAGES - 6)
        self.assertEqual(tree.come_back(FIRST), (PAGES, PAGES))

    def test_pages_of_another_draft_model_end_the_prefix(self):
        self.tree(DraftPools).compute(FIRST)
        for other in ({"draft_layers": 2}, {"draft_dtype": torch.float16}, {"draft_heads": 2 * HEADS, "draft_dim": HEAD_DIM // 2}):
            with self.subTest(other):
                tree = self.tree(type("Other", (DraftPools,), other))
                self.assertEqual(tree.come_back(FIRST), (0, 0), "wrong bytes: those of another draft model")
                tree.close()
        self.assertEqual(self.tree(DraftPools).come_back(FIRST), (PAGES, PAGES))

    # ---- Nodes that fail

    def test_a_node_that_dies_or_stops_in_a_load_holds_nobody_up(self):
        for how, listen in ((signal.SIGKILL, None), (signal.SIGSTOP, None), (signal.SIGSTOP, "tcp://127.0.0.1:0")):
            with self.subTest(how=how.name, listen=listen):
                name = f"{how.name}{bool(listen)}"
                node = self.new_node(name=name, listen=listen)
                tree = self.tree(node=node, timeout_ms=200, store_timeout_ms=500)
                self.assertTrue(wait_until(lambda tree=tree: tree.compute(FIRST) and tree.come_back(FIRST)[0] == PAGES))
                given, came = collections.defaultdict(list), []
                with self.before_each(lambda operation, timeout_s, given=given: given[operation].append(timeout_s)):
                    with tree.between(lambda node=node, how=how: node.send_signal(how)):
                        # On a busy machine a question may be late.
                        self.assertTrue(wait_until(lambda tree=tree, came=came, given=given:
                                                   tree.forget() or came.append(tree.prefetch(FIRST)) or given["fetch"]))
                    pages, took_s = came[-1]
                    self.assertLess(took_s, WATCHDOG_S)
                    self.assertEqual(tree.load(FIRST), pages)
                    # Over shm pages are read as long as the lease of the view lasts.
                    self.assertTrue(wait_until(lambda tree=tree: tree.come_back(FIRST)[0] == 0))
                    for first in (FIRST, 20_000, FIRST):
                        self.assertEqual(tree.compute(first), PAGES)
                        tree.forget()
                        pages, took_s = tree.prefetch(first)
                        self.assertEqual(pages, 0)
                        self.assertLess(took_s, WATCHDOG_S)
                # By then a client has ended them, as missed_deadline_test.cc has it.
                for operation, most_s in (("exists", 0.2), ("fetch", 0.2), ("put", 0.5)):
                    self.assertLessEqual(max(given[operation]), most_s, operation)
                self.assertTrue(tree.lives())
                if how == signal.SIGSTOP:
                    node.send_signal(signal.SIGCONT)
                    self.assertTrue(wait_until(lambda tree=tree: tree.come_back(FIRST) == (PAGES, PAGES)))
                else:
                    self.new_node(name=name)
                    self.assertTrue(wait_until(lambda tree=tree: tree.forget() or tree.compute(20_000) and tree.come_back(20_000) == (PAGES, PAGES)))
                tree.close()

    def test_faults_in_each_call_lose_pages_and_nothing_else(self):
        for whose, faults in (("SGLang's", lambda: mock.patch.dict(os.environ, INJECTED)), ("ours", self.raising)):
            for pools in (KvPools, WindowPools):
                with self.subTest(whose, pools=pools.__name__), faults():
                    tree = self.tree(pools, salt=whose)
                    rounds = Rounds(self, tree)
                    self.assertEqual(tree.storage is not tree.controller.storage_backend, whose == "SGLang's")
                    for _ in range(ROUNDS):
                        rounds.play()
                    # SGLang's faults have no seed.
                    self.assertTrue(wait_until(lambda rounds=rounds: {0, PAGES} <= rounds.came or rounds.play()), rounds.came)
                    self.assertTrue(tree.lives())
                    tree.close()

    @contextlib.contextmanager
    def raising(self):
        """Each of the client's operations fails one time in five."""
        chance = random.Random("raises")

        def fail(*_):
            if chance.random() < 0.2:
                raise Fault

        with self.assertLogs("farpage", "ERROR"), self.before_each(fail):
            yield

    @contextlib.contextmanager
    def before_each(self, action):
        """`action(operation, timeout_s)`, before each of the client's operations."""
        with contextlib.ExitStack() as replaced:
            for operation in ("exists", "fetch", "put"):
                def begin(*arguments, timeout_s, operation=operation, begin=getattr(farpage.Client, operation)):
                    action(operation, timeout_s)
                    return begin(*arguments, timeout_s=timeout_s)

                replaced.enter_context(mock.patch.object(farpage.Client, operation, begin))
            yield

    # ---- Processes and facts

    def test_trees_of_two_processes_share_pages(self):
        other = other_process.start(self, pathlib.Path(__file__), self.node.address, self.folder)
        other_process.wait_for(other, "stored")
        tree = self.tree()
        self.assertEqual((tree.prefetch(FIRST)[0], tree.load(FIRST)), (PAGES, PAGES))
        self.assertEqual(tree.compute(20_000), PAGES)
        other_process.go_on(other)
        other_process.wait_for(other, "loaded")
        self.assertEqual(other.wait(PATIENCE_S), 0)

    def test_a_tree_of_other_facts_finds_none_of_them(self):
        def found(**options):
            tree = self.tree(**options)
            pages, _ = tree.come_back(FIRST)
            tree.close()
            return pages

        self.tree().compute(FIRST)
        for other in ({"weights": b"Weights"}, {"arguments": ("--dtype", "float16")}, {"arguments": ("--kv-cache-dtype", "fp8_e5m2")},
                      {"arguments": ("--revision", "2")}, {"arguments": ("--served-model-name", "n")}, {"salt": "x"},
                      *({"layout": layout} for layout in AXES if layout != KvPools.layout)):
            with self.subTest(other):
                self.assertEqual(found(**other), 0, "wrong bytes: those of other facts")
        self.assertEqual(found(), PAGES)


class Child(Case):
    """The second process, with the same folder of the model."""

    def test(self):
        address, self.folder = sys.argv[1], pathlib.Path(sys.argv[2])
        tree = Tree(self, types.SimpleNamespace(address=address), **PATIENT)
        self.assertEqual(tree.compute(FIRST), PAGES)
        other_process.say("stored")
        other_process.hear()
        self.assertEqual(tree.come_back(20_000), (PAGES, PAGES))
        other_process.say("loaded")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "Child"] if len(sys.argv) > 1 else None, defaultTest="SglangTreeTest")
