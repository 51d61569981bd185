"""FarpageConnector and processes: killed in the middle of stores, forked, and ended with loads
under way. Runs in an environment with vLLM (scripts/test-engines)."""

import itertools
import pathlib
import sys
import unittest

import forked
import other_process
from program import PATIENCE_S, Case, stop

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "connector"))
import tiny_llama  # noqa: E402
from vllm_numbered import BLOCKS, FORMS, PAGE_BYTES, Numbered  # noqa: E402

KILLS = 3
FEW = [0, 1, 2, 3]
TIMEOUT_S = 8  # longer than farpage's own exit waits


def prompts_of(child):
    """Its groups of prompts, which no other child stores."""
    return ([first + number for number in FEW] for first in itertools.count(100_000 * child, len(FEW)))


def store_without_end(model, address, pages, child, ready):
    """A prompt once: of a second time a part would do."""
    engine = Numbered(model, address, pages=pages)
    for group, numbers in enumerate(prompts_of(child)):
        engine.store(numbers)
        if group == 0:
            ready()


def exit_with_loads_under_way(model, address):
    engine = Numbered(model, address, timeout_ms=1000 * TIMEOUT_S, store_timeout_ms=1000 * TIMEOUT_S)
    assert engine.store(FEW)
    engine.evict()
    start = engine.worker.start

    def exit_once_started(plan):
        if plan.loads:
            other_process.say("found")
            other_process.hear()  # meanwhile the node is stopped
        start(plan)
        if plan.loads:
            other_process.say("exits")
            sys.exit(0)

    engine.worker.start = exit_once_started
    engine.run(FEW)


class ConnectorLifetimeTest(Case):
    def setUp(self):
        super().setUp()
        self.model = tiny_llama.save_config(self.folder / "model")
        self.node = self.new_node("tcp://127.0.0.1:0")

    def new_node(self, listen=None, name="node"):
        """With room for all that the children store."""
        return self.start_node("--page-bytes", str(PAGE_BYTES), pool="128MiB", listen=listen, name=name)

    def engine(self, node=None, **settings):
        engine = Numbered(self.model, (node or self.node).address, **settings)
        self.addCleanup(engine.close)
        return engine

    def assert_loads(self, engine, numbers=FEW):
        """From the node, and right bytes."""
        engine.evict()
        self.assertEqual(engine.run(numbers), [BLOCKS * 16] * len(numbers))

    def test_an_engine_that_is_killed_in_the_middle_of_stores_leaves_nothing_half_stored(self):
        for node, pages in zip((self.node, self.new_node(name="shm")), FORMS):
            with self.subTest(pages=pages):
                forked.killed_while(self, lambda ready, child, node=node, pages=pages:
                                    store_without_end(self.model, node.address, pages, child, ready), KILLS)
                engine = self.engine(node, pages=pages)
                for child in range(KILLS):
                    # It compares them.
                    loaded = list(itertools.takewhile(any, map(engine.load, prompts_of(child))))
                    self.assertEqual(loaded[:1], [[True] * len(FEW)])

    def test_a_fork_before_the_connector_starts(self):
        def work():
            engine = Numbered(self.model, self.node.address)
            assert engine.store(FEW)
            engine.close()

        self.assertEqual(forked.ended(self, forked.fork(self, work)), 0)
        self.assert_loads(self.engine())

    def test_a_fork_with_the_connector_open(self):
        """What the child asks of its parent's connector is a miss, and nothing of the parent's
        ends."""
        engine = self.engine()
        self.assertTrue(engine.store(FEW))

        def work():
            assert engine.load(FEW) == [False] * len(FEW)
            engine.close()
            own = Numbered(self.model, self.node.address)
            self.assert_loads(own)
            own.close()

        self.assertEqual(forked.ended(self, forked.fork(self, work)), 0)
        self.assert_loads(engine)

    def test_an_interpreter_that_exits_with_loads_under_way(self):
        child = other_process.start(self, pathlib.Path(__file__), self.model, self.node.address)
        other_process.wait_for(child, "found")
        stop(self.node.pid)
        other_process.go_on(child)
        other_process.wait_for(child, "exits")
        self.assertEqual(child.wait(PATIENCE_S), 0, child.log.read_text()[-4000:])
        self.assertEqual(other_process.uncaught(child), [])


if __name__ == "__main__":
    exit_with_loads_under_way(*sys.argv[1:]) if len(sys.argv) > 1 else unittest.main()
