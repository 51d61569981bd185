"""How FarpageTier answers for whole prefixes, under vLLM's own manager and its scheduler's own
lookup: what it asks for, how much of it, how often, and what is worth loading."""

import itertools
import unittest

from program import wait_until
from vllm_manager import BLOCK_TOKENS, CHUNK_BYTES, CHUNKS, PATIENT_MS, ManagerCase, key

PAGE_BYTES = 2 * CHUNK_BYTES  # a chunk of both ranks


def counted(engine, name):
    """The calls that the tier makes of a method of its client, as lists of keys."""
    client, calls = engine.tier._connection.client, []
    method = getattr(client, name)

    def call(keys, *arguments, **more):
        calls.append([bytes(each) for each in keys])
        return method(keys, *arguments, **more)

    setattr(client, name, call)
    return calls


class PrefixTest(ManagerCase):
    """One engine stores, and another one, whose CPU tier is empty, asks."""

    def names(self, engine, numbers):
        return [bytes(each) for each in engine.tier._space.keys([key(number) for number in numbers])]

    def test_a_prefix_is_one_question_and_ends_at_the_first_page_that_is_gone(self):
        stored = self.stored()
        stored.tier._connection.client.remove(stored.tier._space.keys([key(2)])).wait()
        engine = self.engine()
        asked, fetched = counted(engine, "exists"), counted(engine, "fetch")
        self.assertEqual(engine.settled_prefix(range(6), engine.request()), 2)
        self.assertEqual(asked, [self.names(engine, range(6))])
        self.assertEqual(fetched, [self.names(engine, range(2))])

    def test_requests_of_one_step_are_one_question(self):
        self.stored()
        engine = self.engine()
        asked = counted(engine, "exists")
        contexts = [engine.request() for _ in range(3)]
        for first, context in enumerate(contexts):
            self.assertIsNone(engine.prefix(range(2 * first, 2 * first + 2), context))
        engine.step()
        for first, context in enumerate(contexts):
            self.assertEqual(engine.settled_prefix(range(2 * first, 2 * first + 2), context), 2)
        self.assertEqual(asked, [self.names(engine, range(6))])

    def test_a_prefix_larger_than_the_cpu_tier_is_loaded_once(self):
        self.stored()
        engine = self.engine()
        fetched = counted(engine, "fetch")
        context = engine.request()
        hits = engine.settled_prefix(range(3 * CHUNKS), context)
        self.assertLessEqual(hits, CHUNKS)
        self.assertGreater(hits, 0)
        names = list(itertools.chain(*fetched))
        self.assertEqual(len(names), len(set(names)))  # nothing comes, is evicted, and comes again
        self.assertEqual(engine.settled_prefix(range(hits), context), hits)

    def test_a_prefix_of_a_million_tokens(self):
        self.stored()
        engine = self.engine()
        numbers = range(1_000_000 // 32)
        asked, fetched = counted(engine, "exists"), counted(engine, "fetch")
        context = engine.request()
        self.assertIsNone(engine.prefix(numbers, context))
        engine.step()
        self.assertEqual([len(each) for each in asked], [len(numbers)])
        hits = engine.settled_prefix(numbers, context)
        self.assertTrue(0 < hits <= CHUNKS, hits)
        self.assertEqual(len(asked), 1)
        # No more than the CPU tier has room for.
        self.assertLessEqual(sum(map(len, fetched)), CHUNKS)
        engine.finish(context)
        engine.idle()
        self.assertEqual((engine.tier._lookups._requests, engine.tier._lookups._asked, engine.tier._computing), ({}, [], {}))

    def test_promotions_are_bounded(self):
        self.stored()
        engine = self.engine(chunks=3 * CHUNKS, load_bytes=2 * PAGE_BYTES)
        contexts = [engine.request() for _ in range(3)]
        prefixes = [range(4 * place, 4 * place + 4) for place in range(3)]
        under_way = []

        def step():
            found = [engine.prefix(numbers, context) for numbers, context in zip(prefixes, contexts)]
            engine.step()
            under_way.append(sum(len(job.transfer_job.keys) for job in engine.manager._jobs.values() if job.transfer_job.is_promotion))
            return found == [4, 4, 4]

        self.assertTrue(wait_until(step))
        self.assertEqual(max(under_way), 2)

    def test_who_finds_no_room_waits_no_longer_than_its_time(self):
        self.stored()
        engine = self.engine(timeout_ms=100)
        engine.tier._transfers.promise = lambda length: False  # loads of others that never end
        context = engine.request()
        self.assertIsNone(engine.prefix(range(4), context))
        self.assertEqual(engine.settled_prefix(range(4), context), 0)
        # VLLM asks for no page after the first, though on a busy machine for that one once more.
        self.assertIn(engine.tier._transfers.counts["overdue"], (1, 2))

    def test_a_load_has_what_the_question_left_of_the_time(self):
        self.stored()
        engine = self.engine()
        client = engine.tier._connection.client
        fetch, given = client.fetch, []
        client.fetch = lambda keys, pages, *, timeout_s: given.append(timeout_s) or fetch(keys, pages, timeout_s=timeout_s)
        context = engine.request()
        self.assertIsNone(engine.prefix(range(4), context))
        engine.step()
        # Of 30: as if the question had taken 10.
        engine.tier._lookups._requests[context.req_id].left_s = 20.0
        self.assertEqual(engine.settled_prefix(range(4), context), 4)
        self.assertEqual(len(given), 1)
        self.assertTrue(0 < given[0] <= 20, given)

    def test_no_more_than_comes_by_the_deadline(self):
        self.stored()
        engine = self.engine()
        fetched = counted(engine, "fetch")
        seconds = PATIENT_MS / 1000
        for pages in (1, 4):  # a page is loaded in 0.3 of the time
            engine.tier._worth.loaded(pages * PAGE_BYTES, 0, 0.3 * pages * seconds)
        self.assertEqual(engine.settled_prefix(range(6), engine.request()), 3)
        self.assertEqual(fetched, [self.names(engine, range(3))])
        self.assertEqual(engine.tier._transfers.counts["late"], 3)

    def test_a_preempted_request_asks_anew(self):
        self.stored()
        engine = self.engine()
        asked = counted(engine, "exists")
        context = engine.request()
        self.assertEqual(engine.settled_prefix(range(2), context), 2)
        engine.evict()
        engine.step(preempted=[context.req_id])
        self.assertEqual(engine.settled_prefix(range(2), context), 2)
        self.assertEqual(len(asked), 2)


class AheadTest(ManagerCase):
    def setUp(self):
        super().setUp()
        self.stored()
        self.asking = self.engine(ahead={"pages": 32})

    def statistics(self):
        return self.asking.tier._connection.client.statistics()

    def ask(self, numbers):
        context = self.asking.request()
        self.assertIsNone(self.asking.prefix(numbers, context))
        self.asking.step()
        return context

    def test_pages_are_near_before_they_are_loaded(self):
        context = self.ask(range(6))
        self.assertTrue(wait_until(lambda: self.statistics().fetched_ahead == 6), self.statistics())
        self.assertEqual(self.asking.settled_prefix(range(6), context), 6)
        self.assertEqual(self.statistics().near_ready, 6)

    def test_what_was_announced_and_not_loaded_is_withdrawn(self):
        context = self.ask(range(6))
        self.assertTrue(wait_until(lambda: self.statistics().ahead_places == 6), self.statistics())
        self.asking.finish(context)
        self.assertTrue(wait_until(lambda: self.statistics().ahead_places == 0), self.statistics())
        self.assertEqual(self.asking.tier._announced, {})

    def test_no_more_is_announced_than_may_be_loaded_at_once(self):
        engine = self.engine(ahead={"pages": 32}, load_bytes=3 * PAGE_BYTES)
        announced = counted(engine, "announce")
        context = engine.request()
        self.assertIsNone(engine.prefix(range(10_000), context))
        engine.step()
        self.assertEqual([len(each) for each in announced], [3])


class WorthTest(ManagerCase):
    def test_what_is_cheaper_to_compute_is_not_loaded(self):
        self.stored()
        engine = self.engine(cost_model=True, prefill_tokens_per_s=1e9)
        fetched = counted(engine, "fetch")
        # Nothing is known yet.
        self.assertEqual(engine.settled_prefix(range(4), engine.request()), 4)
        hits = [engine.settled_prefix([4 + number], engine.request()) for number in range(16)]
        self.assertEqual(hits, [0] * 15 + [1])  # the last one is to measure anew
        self.assertEqual(len(fetched), 2)
        self.assertEqual(engine.tier.figures.of("decisions"), {"load": 1, "recompute": 15, "explore": 1})
        self.assertEqual(engine.tier._transfers.counts["slower"], 15)

    def test_what_is_cheaper_to_load_is_loaded(self):
        self.stored()
        engine = self.engine(cost_model=True, prefill_tokens_per_s=1e-3)
        for first in range(0, 12, 4):
            self.assertEqual(engine.settled_prefix(range(first, first + 4), engine.request()), 4)
        self.assertEqual(engine.tier.figures.of("decisions"), {"load": 3})

    def test_the_prefill_rate_is_learned_from_prompts(self):
        engine = self.engine(cost_model=True)
        context = engine.request()
        self.assertEqual(engine.settled_prefix(range(4), context), 0)
        engine.step(new=[context.req_id])
        self.assertIsNone(engine.tier._worth.recompute_s(1))
        begun_s = engine.tier._computing[context.req_id]
        engine.tier._computing[context.req_id] = begun_s - 8  # as if vLLM had computed so long
        engine.store(range(4), context)
        per_token_s = engine.tier._worth.recompute_s(1)
        self.assertTrue(8 / (4 * BLOCK_TOKENS) <= per_token_s < 60 / (4 * BLOCK_TOKENS), per_token_s)
        engine.store(range(4, 6), context)  # of tokens that were generated
        self.assertEqual(engine.tier._worth.recompute_s(1), per_token_s)
        engine.finish(context)
        other = engine.request()
        engine.step(new=[other.req_id])
        engine.store(range(6, 8), other)  # a prompt that nothing was asked of
        self.assertEqual(engine.tier._worth.recompute_s(1), per_token_s)
        engine.finish(other)


if __name__ == "__main__":
    unittest.main()
