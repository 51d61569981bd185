"""vLLM generates on the CPU, with its two caches so small that prefixes come from a node: the
answers are those of vLLM alone, whatever happens to the node. In an environment that has vLLM
(scripts/test-engines)."""

import collections
import contextlib
import functools
import itertools
import os
import pathlib
import random
import re
import signal
import tempfile
import time
import unittest
from unittest import mock

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
from vllm_engine import (  # noqa: E402
    ENVIRONMENT,
    PROMPT_CHUNKS,
    Engine,
    chunk_bytes,
    prompt,
    tiny_model,
    why_not_at_length,
)

os.environ.update(ENVIRONMENT)
import numpy  # noqa: E402
from program import Case, stop, wait_until  # noqa: E402
from truth import assert_answer  # noqa: E402
from vllm.v1.kv_offload.base import LookupResult  # noqa: E402

import farpage  # noqa: E402

PATIENT_MS, DEADLINE_S = 60_000, 0.2
CACHED_TOKENS = PROMPT_CHUNKS * 32
NEAR = 1e-3  # between logprobs, where other parts of a prompt were computed together
REQUESTS, PROMPTS, AT_A_TIME = 200, 12, 2
LATE_S = 1  # that a busy machine adds to a deadline
RECOMPUTES = 50  # some at the same time, on a busy machine; without a deadline a wait has no end


class Waits:
    """What Farpage adds to requests: how long lookups of a page are RETRY, and how long each load
    takes, without the longest of vLLM's steps meanwhile, for vLLM asks once a step. While it is
    entered."""

    def __init__(self, tier):
        self._tier, self._steps_s, self._retry_s, self._load_s = tier, [time.monotonic()], {}, {}
        self.lookups_s, self.loads_s = [], []

    def __enter__(self):
        self._patches = contextlib.ExitStack()
        for name in ("lookup", "submit_load", "get_finished_jobs", "on_schedule_end"):
            self._patches.enter_context(mock.patch.object(self._tier, name, functools.partial(getattr(self, name), getattr(self._tier, name))))
        return self

    def __exit__(self, *_):
        self._patches.close()

    def _since(self, begun_s):
        now_s = time.monotonic()
        steps_s = [begun_s, *(each for each in self._steps_s if each > begun_s), now_s]
        return now_s - begun_s - max(after - before for before, after in itertools.pairwise(steps_s))

    def lookup(self, call, key, context):
        found, page = call(key, context), (context.req_id, bytes(key))
        if found is LookupResult.RETRY:
            self._retry_s.setdefault(page, time.monotonic())
        elif page in self._retry_s:
            self.lookups_s.append(self._since(self._retry_s.pop(page)))
        return found

    def submit_load(self, call, job):
        self._load_s[job.job_id] = time.monotonic()
        call(job)

    def get_finished_jobs(self, call):
        ended = list(call())
        self.loads_s += [self._since(self._load_s.pop(job.job_id)) for job in ended if job.job_id in self._load_s]
        return ended

    def on_schedule_end(self, call, context):
        self._steps_s.append(time.monotonic())
        call(context)


class GenerateCase(Case):
    TIMEOUT_MS = PATIENT_MS
    ENGINE = {}  # its options
    make_model = staticmethod(tiny_model)

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.name = f"{folder.name}/node"  # the epochs of all tests' nodes are in one file
        cls.address = f"{cls.name}.sock"
        cls.model = cls.make_model(pathlib.Path(folder.name) / "model")
        cls.engine = Engine(cls.model, [{"node": cls.address, "timeout_ms": cls.TIMEOUT_MS, "store_timeout_ms": PATIENT_MS}], **cls.ENGINE)
        cls.addClassCleanup(cls.engine.close)
        cls.tier = cls.engine.tiers[0]
        cls.prompts = iter(range(1, 1_000_000))

    def setUp(self):
        super().setUp()
        self.start_again()
        self.wait_until_reachable()

    def start_again(self):
        self.node = self.start_node("--page-bytes", chunk_bytes(self.model), name=self.name, pool="32MiB")

    def wait_until_reachable(self):
        self.assertTrue(wait_until(lambda: self.tier._connection.client is not None), self.tier._connection.why_not)
        client = self.tier._connection.client
        self.assertTrue(wait_until(lambda: client.put(b"x" * 16, b"x", timeout_s=5).wait()["code"][0] == farpage.Code.OK))

    def generate(self, *numbers, **options):
        return self.engine.generate([prompt(number) for number in numbers], **options)

    def new_prompt(self):
        """(a prompt whose answer no small difference in a logprob changes, vLLM's answer from its
        own cache), which is the same when all is computed."""
        while True:
            number = next(self.prompts)
            computed, local = self.generate(number)[0], self.generate(number)[0]
            self.assertEqual((computed.cached, local.cached), (0, CACHED_TOKENS))
            self.assert_near(local, computed)
            if computed.margin > 2 * NEAR:
                return number, local

    def evict(self):
        """Both of vLLM's caches hold other prompts after that."""
        for _ in range(3):
            self.generate(next(self.prompts))
        self.engine.settle()

    def assert_near(self, answer, wanted):
        assert_answer((answer.tokens, answer.logprobs), (wanted.tokens, wanted.logprobs), NEAR)

    def count(self, result):
        return self.tier._transfers.counts[result]

    def stored(self):
        """(a new prompt, vLLM's answer, the keys of its pages). vLLM's caches hold others."""
        with self.record() as keys:
            number, local = self.new_prompt()
            self.engine.settle()
        self.evict()
        return number, local, keys

    @contextlib.contextmanager
    def record(self):
        """The keys of the pages that are stored meanwhile."""
        keys, submit = [], self.tier.submit_store

        def submit_store(job):
            keys.extend(self.page_keys(job))
            submit(job)

        with mock.patch.object(self.tier, "submit_store", submit_store):
            yield keys

    def page_keys(self, job):
        return [row.tobytes() for row in self.tier._space.keys([bytes(key) for key in job.keys])]

    def pages(self, client, keys):
        pages = numpy.zeros((len(keys), chunk_bytes(self.model)), numpy.uint8)
        self.assertTrue((client.fetch(keys, pages, timeout_s=30).wait()["verdict"] == farpage.Verdict.READY).all())
        return pages


class GenerateTest(GenerateCase):
    def test_the_tier_knows_the_configuration_that_the_model_runs_with(self):
        facts = dict(line.split("=", 1) for line in self.tier._space.lines().splitlines())
        self.assertTrue(facts["config"] and facts["cache.cache_dtype"], facts)
        self.assertEqual(facts["computed_dtype"], "torch.float32")

    def test_a_prefix_that_comes_from_a_node_gives_what_a_local_hit_gives(self):
        number, local, _ = self.stored()
        ready = self.count("ready")
        loaded = self.generate(number)[0]
        self.assertEqual((loaded.cached, self.count("ready") - ready), (CACHED_TOKENS, PROMPT_CHUNKS))
        assert_answer((loaded.tokens, loaded.logprobs), (local.tokens, local.logprobs), 0)

    def test_other_bytes_under_its_keys_change_the_answer(self):
        """So that equal answers, in the other tests, come from the bytes that were stored."""
        number, local, keys = self.stored()
        with farpage.open(self.address) as client:
            first = self.pages(client, keys)[:1]  # in place of all: their order means nothing
            client.put(keys, first.repeat(len(keys), axis=0), timeout_s=30).wait()
        ready = self.count("ready")
        loaded = self.generate(number)[0]
        self.assertEqual((loaded.cached, self.count("ready") - ready), (CACHED_TOKENS, PROMPT_CHUNKS))
        self.assertGreater(numpy.abs(numpy.subtract(loaded.logprobs, local.logprobs)).max(), 10 * NEAR)

    def test_a_load_that_fails_is_computed(self):
        """Pages that are there when vLLM asks, and gone when it loads."""
        for left in (0, PROMPT_CHUNKS // 2):
            with self.subTest(left=left):
                number, local, _ = self.stored()
                loads, submit = [], self.tier.submit_load

                def submit_load(job):
                    loads.append(len(job.keys))
                    client.remove(self.page_keys(job)[left:]).wait()
                    submit(job)

                with farpage.open(self.address) as client, mock.patch.object(self.tier, "submit_load", submit_load):
                    answer = self.generate(number)[0]
                self.assertEqual(loads, [PROMPT_CHUNKS])  # once, and not again and again
                self.assertEqual(answer.cached, 32 * left)
                self.assert_near(answer, local)


@unittest.skipIf(why_not_at_length(), why_not_at_length())
class FaultsTest(GenerateCase):
    TIMEOUT_MS = 1000 * DEADLINE_S

    def test_faults_of_a_node_in_the_middle_of_200_requests(self):
        """Each answer is right, and no request waits for Farpage longer than the deadline and a
        step, while the node is stopped, killed, started again and damaged."""
        with self.record() as keys:
            wanted = dict(self.new_prompt() for _ in range(PROMPTS))
            self.engine.settle()
        slowest_s = max(answer.seconds for answer in self.generate(*(next(self.prompts) for _ in range(PROMPTS)), at_a_time=AT_A_TIME))
        chosen, longest_s, looked_up, loaded = random.Random(5), 0, 0, 0
        phases = (("stopped", {10: self.stop, 30: self.go_on}), ("killed", {10: self.kill}), ("started", {10: self.start_again}),
                  ("damaged", {10: lambda: self.damage(set(keys))}), ("healthy", {}))
        for name, faults in phases:
            before, order = collections.Counter(self.tier._transfers.counts), chosen.choices(list(wanted), k=REQUESTS // len(phases))
            with Waits(self.tier) as waits:
                answers = self.generate(*order, at_a_time=AT_A_TIME, before_step=functools.partial(self.meet, faults))
            for each_s in (waits.lookups_s, waits.loads_s):
                self.assertLess(max(each_s, default=0), DEADLINE_S + LATE_S, name)
            looked_up += len(waits.lookups_s)
            loaded += len(waits.loads_s)
            for number, answer in zip(order, answers):
                self.assert_near(answer, wanted[number])
            gained = collections.Counter(self.tier._transfers.counts) - before
            slowest = max(answer.seconds for answer in answers)
            longest_s = max(longest_s, slowest)
            print(f"{name}: {len(answers)} requests, the longest {slowest:.2f} s; pages: {dict(gained)}", flush=True)
            if name == "damaged":
                self.assertTrue(gained["corrupt"] or wait_until(lambda: self.meets_damage(set(keys), wanted), seconds=100))
            if name == "healthy":
                self.assertTrue(gained["ready"] or wait_until(lambda: self.loads(wanted), seconds=100))
            if name != "killed":
                self.wait_until_reachable()
        self.assertTrue(looked_up and loaded, (looked_up, loaded))
        print(f"the longest {longest_s:.2f} s; when nothing is stored, at most {slowest_s:.2f} s", flush=True)
        self.assertLess(longest_s, DEADLINE_S + RECOMPUTES * slowest_s)  # vLLM itself goes on

    def loads(self, wanted):
        """Whether pages came in time: not all do on a busy machine."""
        ready = self.count("ready")
        for number, answer in zip(wanted, self.generate(*wanted, at_a_time=AT_A_TIME)):
            self.assert_near(answer, wanted[number])
        return self.count("ready") > ready

    def meets_damage(self, keys, wanted):
        """Whether a load did: a slow node may have had little when it was damaged."""
        corrupt = self.tier._transfers.counts["corrupt"]
        self.damage(keys)
        for number, answer in zip(wanted, self.generate(*wanted, at_a_time=AT_A_TIME)):
            self.assert_near(answer, wanted[number])
        return self.tier._transfers.counts["corrupt"] > corrupt

    @staticmethod
    def meet(faults, ended):
        """Those that are due once so many requests have ended: several may end in one step."""
        for number in [each for each in faults if each <= ended]:
            faults.pop(number)()

    def stop(self):
        stop(self.node.pid)

    def go_on(self):
        self.node.send_signal(signal.SIGCONT)

    def kill(self):
        self.node.kill()
        self.node.wait()

    def damage(self, keys):
        """A byte of each of these pages, wherever it lies in the node's memory."""
        maps = pathlib.Path(f"/proc/{self.node.pid}/maps").read_text(encoding="utf-8")
        with farpage.open(self.address) as client, open(f"/proc/{self.node.pid}/mem", "r+b", buffering=0) as memory:
            pages = self.pages(client, [key for key in keys if client.leading([key])])
            for begin, end in re.findall(r"^(\w+)-(\w+) rw-s .*memfd:farpage", maps, re.MULTILINE):
                memory.seek(int(begin, 16))
                there = memory.read(int(end, 16) - int(begin, 16))
                for page in pages:
                    place = there.find(page.tobytes())
                    if place >= 0:
                        memory.seek(int(begin, 16) + place)
                        memory.write(bytes([page[0] ^ 0xFF]))


if __name__ == "__main__":
    unittest.main()
