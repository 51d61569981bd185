"""FarpageConnector under vLLM's own scheduler, step by step, with real nodes: without a GPU, in an
environment that has vLLM (scripts/test-engines)."""

import os
import pathlib
import random
import re
import signal
import sys
import time
import types
import unittest
from unittest import mock

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
SOURCE = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(SOURCE / "python"))
import numpy  # noqa: E402
from program import Case, stop, wait_until  # noqa: E402
from tiny_llama import save_config  # noqa: E402
from truth import assert_tokens  # noqa: E402
from vllm.v1.core.sched.scheduler import RequestStatus  # noqa: E402
from vllm.v1.kv_cache_interface import (  # noqa: E402
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm_steps import BLOCK_TOKENS, LAYER_BYTES, Engine, expected  # noqa: E402

import farpage  # noqa: E402
from farpage.engines import vllm_connector  # noqa: E402
from farpage.engines.connector_plan import Settings  # noqa: E402

PATIENT_MS = 60_000  # a busy machine is late; cases about deadlines name their own
FORMS = ("block", "layer")
LAYERS = 3
BLOCKS = 6  # whole blocks of a prompt below, but for its last token
PROMPTS = [[(number * place) % 900 for place in range(BLOCKS * BLOCK_TOKENS + 4)] for number in range(1, 4)]


class ConnectorCase(Case):
    drafts = False  # whether vLLM has a draft model

    def setUp(self):
        super().setUp()
        self.node = self.start_node("--page-bytes", "4KiB", pool="8MiB")
        self.engines = []
        self.model = save_config(self.folder / "model")

    def engine(self, connects=True, **options):
        options = {"node": str(self.node.socket), "timeout_ms": PATIENT_MS, "store_timeout_ms": PATIENT_MS, "layers": LAYERS, "drafts": self.drafts,
                   **options}
        engine = Engine(options.pop("model", self.model), **options)
        self.engines.append(engine)
        self.addCleanup(engine.close)
        if connects:
            self.connect(engine)
        return engine

    def connect(self, engine):
        for connection in engine.connections:
            if connection is not None:
                self.assertTrue(wait_until(lambda connection=connection: connection.client is not None), connection.why_not)

    def store(self, prompts=PROMPTS, **options):
        """The pages of an engine that has computed these, and is gone, as all before it are."""
        while self.engines:
            self.engines.pop().close()
        engine = self.engine(**options)
        ranks = options.get("ranks", 1)
        self.assert_generates(engine, [0] * len(prompts), prompts, ranks)
        self.wait_stored(engine, BLOCKS * len(prompts))
        engine.close()

    def wait_stored(self, engine, blocks):
        def has_stored():
            engine.step()
            return engine.counts()["stored"] >= blocks

        engine.settle()
        self.assertTrue(wait_until(has_stored), engine.counts())

    def assert_generates(self, engine, cached, prompts=PROMPTS, ranks=1):
        """Right tokens, and how many came from the connector."""
        tokens, from_connector = engine.run(prompts)
        assert_tokens(tokens, [expected(prompt, ranks=ranks) for prompt in prompts])
        self.assertEqual(from_connector, cached)

    def keys(self, engine, prompt, part=0):
        """Of the pages of a prompt's blocks, in the worker's order."""
        request = engine.add(prompt)
        engine.finish([request])
        names = engine.connector._scheduler._names(request, 0, BLOCKS)
        return engine.workers[0].connector._worker.shard.keys(names)[:, part]

    def before_load(self, engine, action):
        """Calls `action` once, after the scheduler has found pages and before the worker asks for
        them."""
        worker = engine.workers[0].connector._worker
        start, acted = worker.start, []

        def late(plan):
            if plan.loads and not acted:
                acted.append(True)
                action()
            start(plan)

        worker.start = late
        self.addCleanup(lambda: self.assertTrue(acted, "nothing was loaded"))

    def wait_until_unreachable(self, engine):
        """Over shm a node is read for as long as the lease of its view lasts."""
        client, into = engine.workers[0].connector._worker.connection.client, numpy.zeros(1024, numpy.uint8)
        self.assertTrue(wait_until(lambda: client.fetch(b"x" * 16, into, timeout_s=0.1).wait()["reason"][0] != farpage.Reason.MISS))


class PrefixTest(ConnectorCase):
    def test_a_fresh_engine_loads_what_another_has_computed(self):
        for pages in FORMS:
            for options in ({}, {"ranks": 2}, {"gaps": True}):
                with self.subTest(pages=pages, **options):
                    salt = f"{pages} {options}"
                    self.store(pages=pages, salt=salt, **options)
                    engine = self.engine(pages=pages, salt=salt, **options)
                    self.assert_generates(engine, [BLOCKS * BLOCK_TOKENS] * len(PROMPTS), ranks=options.get("ranks", 1))
                    self.assertEqual(engine.counts()["ready"], BLOCKS * len(PROMPTS))

    def test_generated_tokens_are_stored_too(self):
        prompt, tokens = PROMPTS[0], 3 * BLOCK_TOKENS
        engine = self.engine()
        answer = engine.run([prompt], tokens)[0][0]
        assert_tokens(answer, expected(prompt, tokens))
        whole = (len(prompt) + tokens - 1) // BLOCK_TOKENS
        self.wait_stored(engine, whole)
        engine.close()
        longer = prompt + answer + [1]
        self.assert_generates(self.engine(), [whole * BLOCK_TOKENS], [longer])

    def test_other_bytes_change_the_tokens(self):
        """What vLLM computes with is what was loaded."""
        for pages in FORMS:
            with self.subTest(pages=pages):
                self.store(PROMPTS[:1], pages=pages)
                engine = self.engine(pages=pages)
                key = self.keys(self.engine(pages=pages), PROMPTS[0])[2]
                length = LAYER_BYTES * (LAYERS if pages == "block" else 1)
                client = engine.workers[0].connector._worker.connection.client
                self.assertEqual(client.put(key.tobytes(), bytes(length)).wait()["code"][0], farpage.Code.OK)
                tokens, cached = engine.run(PROMPTS[:1])
                self.assertEqual(cached, [BLOCKS * BLOCK_TOKENS])
                self.assertNotEqual(tokens[0], expected(PROMPTS[0]))

    def test_a_missing_page_ends_the_prefix(self):
        for pages in FORMS:
            with self.subTest(pages=pages):
                self.store(PROMPTS[:1], pages=pages)
                other = self.engine(pages=pages, transfer={"kv_role": "kv_consumer"})
                keys = self.keys(other, PROMPTS[0], part=0 if pages == "block" else 1)
                engine = self.engine(pages=pages, transfer={"kv_role": "kv_consumer"})
                self.assertEqual(engine.workers[0].connector._worker.connection.client.remove(keys[4].tobytes()).wait(), 1)
                self.assert_generates(engine, [4 * BLOCK_TOKENS], PROMPTS[:1])

    def test_pages_of_other_facts_are_never_found(self):
        self.store()
        other = save_config(self.folder / "other")
        for facts in ({"model": other}, {"engine": {"dtype": "bfloat16"}}, {"salt": "x"}, {"pages": "layer"}, {"ranks": 2}, {"gaps": True},
                      {"engine": {"kv_cache_dtype": "fp8"}}, {"engine": {"prefix_caching_hash_algo": "sha256_cbor"}}):
            with self.subTest(**facts):
                engine = self.engine(**facts)
                self.assertEqual(engine.run(PROMPTS)[1], [0] * len(PROMPTS), "wrong bytes, of other facts")
                engine.close()

    def test_each_fact_is_in_the_namespace(self):
        def backend(name):
            return lambda: types.SimpleNamespace(get_name=lambda: name)

        def space(settings=None, **facts):
            told = {"model": "m", "dtype": "bfloat16", "revision": "r", "quantization": "q", "cache_dtype": "auto", "block_size": 16, "hash": "h",
                    "layout": "l", "isa": "amx", "backend": "FLASHINFER", "attention": {"indexer_kv_dtype": "auto"}, "tp_rank": 0, "tp_size": 2, "rope": 1, "load_format": "auto", "pp_rank": 0, "pp_size": 2, **facts}
            config = types.SimpleNamespace(
                model_config=types.SimpleNamespace(hf_config={"rope": told["rope"]},
                                                   **{name: told[name] for name in ("model", "dtype", "revision", "quantization")}),
                load_config=types.SimpleNamespace(download_dir=None, load_format=told["load_format"]), speculative_config=None,
                attention_config=told["attention"], cache_config=types.SimpleNamespace(cache_dtype=told["cache_dtype"], block_size=told["block_size"], prefix_caching_hash_algo=told["hash"]),
                compilation_config=types.SimpleNamespace(static_forward_context={
                    "first": types.SimpleNamespace(isa=told["isa"], get_attn_backend=backend("FLASHINFER")),
                    "second": types.SimpleNamespace(isa=told["isa"], get_attn_backend=backend(told["backend"]))}))
            groups = {f"get_{name}_group": types.SimpleNamespace(rank_in_group=told[f"{name}_rank"], world_size=told[f"{name}_size"]) for name in ("tp", "pp")}
            with mock.patch.multiple(vllm_connector, **{name: lambda group=group: group for name, group in groups.items()}):
                cache = types.SimpleNamespace(layout=told["layout"], place={"first": 0, "second": 1})
                return vllm_connector.space_of(config, cache, Settings(**(settings or {}))).namespace

        others = [{name: "other"} for name in ("model", "dtype", "revision", "quantization", "cache_dtype", "block_size", "hash", "layout", "isa", "rope", "load_format", "backend", "attention")]
        others += [{name: 3} for name in ("tp_rank", "tp_size", "pp_rank", "pp_size")] + [{"settings": {"salt": "x"}}, {"settings": {"pages": "layer"}}]
        spaces = {space(), *(space(**other) for other in others)}
        self.assertEqual(len(spaces), 1 + len(others))

    def test_each_rank_has_pages_of_its_own(self):
        self.store(ranks=2)
        engine = self.engine(ranks=2)
        spaces = {worker.connector._worker.shard.space.namespace for worker in engine.workers}
        self.assertEqual(len(spaces), 2)
        # What one rank lacks is missing.
        names = engine.connector._scheduler._names(engine.add(PROMPTS[0]), 0, BLOCKS)
        second = engine.workers[1].connector._worker
        self.assertEqual(second.connection.client.remove(second.shard.keys(names)[3]).wait(), 1)
        self.assertEqual(self.engine(ranks=2).run(PROMPTS[:1])[1], [3 * BLOCK_TOKENS], "wrong tokens: one rank lacks their bytes")

    def test_the_tenants_salt_of_vllm_holds(self):
        self.store(PROMPTS[:1])
        self.assertEqual(self.engine().run(PROMPTS[:1], salt="tenant")[1], [0], "wrong bytes, of another tenant")

    def test_roles(self):
        producer = self.engine(transfer={"kv_role": "kv_producer"})
        self.assert_generates(producer, [0] * len(PROMPTS))
        self.wait_stored(producer, BLOCKS * len(PROMPTS))
        self.assertEqual(self.engine(transfer={"kv_role": "kv_producer"}).run(PROMPTS)[1], [0] * len(PROMPTS))
        consumer = self.engine(transfer={"kv_role": "kv_consumer"})
        self.assert_generates(consumer, [BLOCKS * BLOCK_TOKENS] * len(PROMPTS))
        consumer.settle()
        self.assertEqual(consumer.counts()["stored"], 0)

    def test_a_prompt_of_whole_blocks_computes_its_last(self):
        prompt = PROMPTS[0][:BLOCKS * BLOCK_TOKENS]
        for pages in FORMS:
            with self.subTest(pages=pages):
                self.store(PROMPTS[:1], pages=pages)
                self.assert_generates(self.engine(pages=pages), [(BLOCKS - 1) * BLOCK_TOKENS], [prompt])


class FaultsTest(ConnectorCase):
    def test_a_node_that_dies_between_lookup_and_load(self):
        for pages in FORMS:
            with self.subTest(pages=pages):
                self.store(pages=pages)
                engine = self.engine(pages=pages, timeout_ms=500)

                def die(engine=engine):
                    self.node.kill()
                    self.node.wait()
                    self.wait_until_unreachable(engine)

                self.before_load(engine, die)
                tokens, _ = engine.run(PROMPTS)
                assert_tokens(tokens, [expected(prompt) for prompt in PROMPTS])
                self.assertGreaterEqual(len(engine.invalid), BLOCKS)
                self.node = self.start_node("--page-bytes", "4KiB", pool="8MiB", name=f"after_{pages}")

    def test_a_node_that_hangs_costs_the_deadline(self):
        for pages in FORMS:
            with self.subTest(pages=pages):
                self.store(pages=pages, salt=pages)
                engine = self.engine(pages=pages, timeout_ms=300, salt=pages)

                def hang(engine=engine):
                    stop(self.node.pid)
                    self.wait_until_unreachable(engine)

                self.before_load(engine, hang)
                begun = time.monotonic()
                tokens, _ = engine.run(PROMPTS)
                self.assertLess(time.monotonic() - begun, PATIENT_MS / 1000)
                assert_tokens(tokens, [expected(prompt) for prompt in PROMPTS])
                self.assertEqual(engine.counts()["ready"], 0)
                self.node.send_signal(signal.SIGCONT)

    def test_a_page_that_goes_between_lookup_and_load_is_computed_once(self):
        for pages in FORMS:
            for place in (0, 3):
                with self.subTest(pages=pages, place=place):
                    salt = f"{pages} {place}"
                    self.store(PROMPTS[:1], pages=pages, salt=salt)
                    keys = self.keys(self.engine(pages=pages, salt=salt, transfer={"kv_role": "kv_consumer"}), PROMPTS[0])
                    engine = self.engine(pages=pages, salt=salt)
                    client = engine.workers[0].connector._worker.connection.client
                    self.before_load(engine, lambda client=client, key=keys[place].tobytes(): client.remove(key).wait())
                    tokens, _ = engine.run(PROMPTS[:1])
                    assert_tokens(tokens, [expected(PROMPTS[0])])
                    self.assertEqual(len(engine.invalid), 1)
                    # Nothing was asked for twice.
                    self.assertEqual((engine.counts()["miss"], engine.counts()["ready"]), (1, BLOCKS - 1))
                    # What was computed again is stored again.
                    self.wait_stored(engine, BLOCKS - place)
                    self.assert_generates(self.engine(pages=pages, salt=salt), [BLOCKS * BLOCK_TOKENS], PROMPTS[:1])

    def test_a_page_that_was_damaged_is_computed(self):
        for pages in FORMS:
            with self.subTest(pages=pages):
                self.store(PROMPTS[:1], pages=pages)
                donor = self.engine(pages=pages)
                donor.run(PROMPTS[:1])
                worker = donor.workers[0]
                number = [block for block in range(1, 40) if worker.caches["layer.1"][block].any()][3]
                content = worker.caches["layer.1"][number].numpy().tobytes()
                engine = self.engine(pages=pages)
                self.before_load(engine, lambda content=content: self.flip(content))
                tokens, _ = engine.run(PROMPTS[:1])
                assert_tokens(tokens, [expected(PROMPTS[0])])
                # Its second read finds no page, once the node has heard of the damage.
                self.assertEqual(engine.counts()["corrupt"] + engine.counts()["miss"], 1, engine.counts())
                self.assertEqual(engine.counts()["ready"], BLOCKS - 1)

    def flip(self, content):
        """A bit of each copy of these bytes in the node's memory."""
        found = 0
        with open(f"/proc/{self.node.pid}/mem", "r+b", buffering=0) as memory:
            for line in pathlib.Path(f"/proc/{self.node.pid}/maps").read_text().splitlines():
                first, last, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
                if "w" not in rights or "[v" in line:
                    continue
                memory.seek(int(first, 16))
                try:
                    held = memory.read(int(last, 16) - int(first, 16))
                except OSError:
                    continue
                for match in re.finditer(re.escape(content), held):
                    memory.seek(int(first, 16) + match.start() + 100)
                    memory.write(bytes([held[match.start() + 100] ^ 1]))
                    found += 1
        self.assertGreater(found, 0, "the page is nowhere in the node's memory")

    def test_a_request_that_is_aborted_while_it_loads(self):
        self.store()
        stop(self.node.pid)  # over shm loads go on, so it ends either way
        engine = self.engine(connects=False, timeout_ms=2000)
        self.node.send_signal(signal.SIGCONT)
        self.connect(engine)
        request = engine.add(PROMPTS[0])
        while request.status != RequestStatus.WAITING_FOR_REMOTE_KVS:
            self.assertFalse(request.is_finished())
            engine.step()
        engine.scheduler.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED)
        engine.settle()
        self.assertEqual(engine.scheduler.kv_cache_manager.block_pool.get_num_free_blocks(), 39)
        self.assert_generates(engine, [BLOCKS * BLOCK_TOKENS] * len(PROMPTS))

    def test_stores_that_find_no_room_are_dropped_and_counted(self):
        engine = self.engine(store_bytes=2 * LAYERS * LAYER_BYTES)
        self.assert_generates(engine, [0], PROMPTS[:1])
        self.wait_stored(engine, 2)
        counts = engine.counts()
        self.assertEqual(counts["stored"] + counts["dropped"], BLOCKS)
        self.assertGreater(counts["dropped"], 0)

    def test_loads_wait_for_room_within_their_deadline(self):
        self.store()
        self.assert_generates(self.engine(load_bytes=2 * LAYERS * LAYER_BYTES), [BLOCKS * BLOCK_TOKENS] * len(PROMPTS))
        engine = self.engine(load_bytes=LAYERS * LAYER_BYTES, timeout_ms=0.001)
        # The lookup alone has time.
        engine.connector._scheduler._settings = types.SimpleNamespace(timeout_s=PATIENT_MS / 1000)
        assert_tokens(engine.run(PROMPTS)[0], [expected(prompt) for prompt in PROMPTS])
        self.assertGreater(engine.counts()["overdue"], 0)

    def test_requests_that_share_prefixes_and_are_preempted(self):
        """More than the block pool holds, at a seed: each token is right, engine after engine."""
        rng = random.Random(7)
        shared = [[rng.randrange(900) for _ in range(5 * BLOCK_TOKENS)] for _ in range(3)]
        prompts = [rng.choice(shared)[:rng.randrange(1, 80)] + [rng.randrange(900) for _ in range(rng.randrange(1, 60))] for _ in range(24)]
        truth = [expected(prompt, 40) for prompt in prompts]
        for pages in FORMS:
            for _ in range(2):
                engine = self.engine(pages=pages, blocks=20)
                requests = [engine.add(prompt, 40) for prompt in prompts]
                engine.finish(requests)
                assert_tokens([list(request.output_token_ids) for request in requests], truth)
                self.assertGreater(sum(request.num_preemptions for request in requests), 0)
                engine.settle()
                engine.close()
            self.assertGreater(engine.counts_at_end["ready"], 0)


class FaultsWithADraftModelTest(FaultsTest):
    drafts = True


class StartTest(ConnectorCase):
    def test_without_a_node_everything_is_a_miss_until_one_comes(self):
        self.node.kill()
        self.node.wait()
        engine = self.engine(connects=False, connect_ms=200)
        self.assert_generates(engine, [0], PROMPTS[:1])
        engine.settle()
        self.assertGreaterEqual(engine.counts()["dropped"], BLOCKS)
        self.node = self.start_node("--page-bytes", "4KiB", pool="8MiB")
        self.connect(engine)
        self.assert_generates(engine, [0, 0], PROMPTS[1:])
        self.wait_stored(engine, 2 * BLOCKS)
        self.assert_generates(self.engine(), [0] + [BLOCKS * BLOCK_TOKENS] * 2)

    def test_a_node_that_comes_back_is_used(self):
        engine = self.engine(timeout_ms=500)
        self.node.kill()
        self.node.wait()
        self.wait_until_unreachable(engine)
        self.assert_generates(engine, [0], PROMPTS[:1])
        self.node = self.start_node("--page-bytes", "4KiB", pool="8MiB")

        def is_used(number=iter(range(900))):
            prompt = [next(number), *PROMPTS[1]]
            engine.run([prompt])
            engine.settle()
            fresh = self.engine()
            cached = fresh.run([prompt])[1]
            fresh.close()  # a node serves eight clients
            return cached == [BLOCKS * BLOCK_TOKENS]

        self.assertTrue(wait_until(is_used))

    def test_pages_of_the_node_that_are_too_small(self):
        small = self.start_node("--page-bytes", "1KiB", name="small")
        engine = self.engine(connects=False, node=str(small.socket))
        connection = engine.workers[0].connector._worker.connection
        self.assertTrue(wait_until(lambda: "--page-bytes 3072" in connection.why_not), connection.why_not)
        self.assert_generates(engine, [0], PROMPTS[:1])
        layered = self.engine(node=str(small.socket), pages="layer")  # each page has 1 KiB
        self.assert_generates(layered, [0], PROMPTS[:1])

    def test_what_it_cannot_serve_is_refused_with_a_sentence(self):
        for options, sentence in (({"transfer": {"kv_load_failure_policy": "fail"}}, '"kv_load_failure_policy": "recompute"'),
                                  ({"pages": "head"}, 'pages is .head.: give "block"'),
                                  ({"chunk_tokens": 16}, "FarpageConnector has no setting chunk_tokens"), ({"load_bytes": 1}, "load_bytes is 1, and a page has"),
                                  ({"timeout_ms": -1}, "timeout_ms is -1: give a number above 0")):
            with self.subTest(**options), self.assertRaisesRegex(farpage.InvalidError, sentence):
                self.engine(connects=False, **options)
        engine = self.engine(connects=False)
        worker = engine.workers[0]
        other = types.SimpleNamespace(device=types.SimpleNamespace(type="xpu"), shape=(40, 1), dtype="int8")
        with self.assertRaisesRegex(farpage.InvalidError, "needs the whole KV cache in host memory or on one CUDA GPU"):
            worker.connector.register_kv_caches({"layer.0": other})
        with self.assertRaisesRegex(farpage.InvalidError, "vLLM has 40 blocks"):
            worker.connector.register_kv_caches({"layer.0": worker.caches["layer.0"][:7]})
        window = SlidingWindowSpec(block_size=16, num_kv_heads=2, head_size=16, dtype=worker.caches["layer.0"].dtype, sliding_window=64)
        with self.assertRaisesRegex(farpage.InvalidError, "layers of other kinds"):
            type(worker.connector)(engine.vllm_config, worker.connector.role, KVCacheConfig(40, [], [KVCacheGroupSpec(["layer.0"], window)]))

    def test_a_setting_that_farpage_does_not_know(self):
        engine = self.engine(connects=False, lnaes=3)
        connection = engine.workers[0].connector._worker.connection
        self.assertTrue(wait_until(lambda: "did you mean 'lanes'?" in connection.why_not), connection.why_not)
        self.assert_generates(engine, [0], PROMPTS[:1])


class EndTest(ConnectorCase):
    def test_a_reset_forgets_all_pages_of_before(self):
        self.store()
        engine = self.engine()
        self.assertTrue(engine.scheduler.reset_prefix_cache(reset_connector=True))
        self.assert_generates(engine, [0] * len(PROMPTS))
        self.wait_stored(engine, BLOCKS * len(PROMPTS))
        self.assertTrue(engine.scheduler.reset_prefix_cache())
        self.assert_generates(engine, [BLOCKS * BLOCK_TOKENS] * len(PROMPTS))  # of after the reset

    def test_requests_that_wait_are_announced(self):
        self.store()
        engine = self.engine(blocks=12, ahead={"pages": 64})
        first = engine.add([5] * 150, tokens=16)
        while not first.output_token_ids:
            engine.step()
        second = engine.add(PROMPTS[0])
        question = engine.connector._scheduler._requests[second.request_id].ticket
        self.assertTrue(wait_until(lambda: question.done))
        engine.step()
        self.assertEqual(second.status, RequestStatus.WAITING)  # for blocks
        client = engine.workers[0].connector._worker.connection.client
        self.assertTrue(wait_until(lambda: client.statistics().fetched_ahead == BLOCKS), client.statistics())
        engine.finish([first, second])
        assert_tokens(list(second.output_token_ids), expected(PROMPTS[0]))
        self.assertEqual(client.statistics().near_ready, BLOCKS)

    def test_shutdown_leaves_nothing(self):
        self.store(PROMPTS[:1], salt="first")  # vLLM and torch begin threads of their own, once

        def threads():
            return set(os.listdir("/proc/self/task"))

        before = threads()
        descriptors = len(os.listdir("/proc/self/fd"))
        for pages in FORMS:
            self.store(pages=pages)
            engine = self.engine(pages=pages)
            engine.run(PROMPTS)
            engine.close()
        self.assertTrue(wait_until(lambda: threads() <= before), (before, threads()))
        self.assertTrue(wait_until(lambda: "memfd:farpage" not in pathlib.Path("/proc/self/maps").read_text()))
        self.assertTrue(wait_until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors))


if __name__ == "__main__":
    unittest.main()
