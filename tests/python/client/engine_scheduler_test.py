"""vLLM's connector in its scheduler, without vLLM: which blocks of a request are asked for, loaded
and stored, and under which names."""

import types
import unittest
from unittest import mock

import numpy
from client_case import READY, RECOMPUTE, farpage
from fake_ticket import FakeTicket
from farpage.engines import connector_scheduler
from farpage.engines.connector_plan import Settings, Shard
from farpage.engines.connector_scheduler import SchedulerSide

BLOCK_TOKENS = 4
TIMEOUT_S = 10
SPACE = farpage.KeySpace(model="m")


class Request:
    """Of vLLM's: `blocks` whole blocks, and a token more. Block n's hash is `name` and n."""

    def __init__(self, blocks, name="r"):
        self.request_id, self.num_preemptions = "r", 0
        self.num_tokens = blocks * BLOCK_TOKENS + 1
        self.block_hashes = [f"{name} {number}".encode() for number in range(blocks)]
        self.num_computed_tokens = self.num_in_flight_tokens = 0

    def compute(self, blocks, in_flight=0):
        self.num_computed_tokens, self.num_in_flight_tokens = blocks * BLOCK_TOKENS, in_flight * BLOCK_TOKENS

    def names(self, *numbers):
        return [self.block_hashes[number] for number in numbers]


class SchedulerTest(unittest.TestCase):
    def setUp(self):
        self.now_s = 0.0
        clock = mock.patch.object(connector_scheduler, "time", types.SimpleNamespace(monotonic=lambda: self.now_s))
        clock.start()
        self.addCleanup(clock.stop)
        self.asked, self.tickets = [], []
        self.side = SchedulerSide(Settings(timeout_ms=1000 * TIMEOUT_S), BLOCK_TOKENS, loads=False, stores=True, loads_ahead=True)
        self.side._connection = types.SimpleNamespace(client=types.SimpleNamespace(exists=self.exists))
        self.side.set_shards([Shard(SPACE, 1), Shard(farpage.KeySpace(model="m", rank="1"), 1)])

    def exists(self, keys, timeout_s):
        self.asked.append(numpy.asarray(keys).reshape(-1, 16))
        return self.tickets.pop(0)

    def answer(self, *there, is_done=True):
        """The next question's: of each block, and of both workers."""
        ticket = FakeTicket([READY if each else RECOMPUTE for each in numpy.repeat(there, 2)])
        ticket.done = is_done
        self.tickets.append(ticket)
        return ticket

    def matched(self, request, computed=0):
        """Blocks."""
        tokens = self.side.matched(request, computed * BLOCK_TOKENS)
        return None if tokens is None else tokens // BLOCK_TOKENS

    def load(self, request, blocks, numbers):
        """vLLM's blocks `numbers` are to hold the request's first ones."""
        self.answer(*[True] * blocks, *[False] * (len(request.block_hashes) - blocks))
        self.side.begin(request)
        self.assertEqual(self.matched(request), blocks)
        self.side.allocated(request, numbers, blocks * BLOCK_TOKENS)

    def plan(self, *scheduled, numbers=()):
        plan = self.side.plan(scheduled, lambda _: list(numbers))
        return [(each.names, each.numbers) for each in plan.loads], [(each.names, each.numbers) for each in plan.stores], plan.ending

    def test_blocks_before_the_first_one_that_a_worker_lacks(self):
        request, ticket = Request(3), FakeTicket([READY, READY, READY, RECOMPUTE, READY, READY])
        self.tickets.append(ticket)
        self.side.begin(request)
        self.assertIsNone(self.matched(request))
        ticket.end()
        self.assertEqual([self.matched(request), self.matched(request, computed=1), self.matched(request, computed=3)], [1, 0, 0])

    def test_a_question_without_an_answer_is_over_in_time(self):
        request = Request(2)
        self.answer(True, True, is_done=False)
        self.side.begin(request)
        self.assertIsNone(self.matched(request))
        self.now_s = TIMEOUT_S
        self.assertEqual(self.matched(request), 0)

    def test_one_token_at_least_is_computed(self):
        request = Request(2)
        request.num_tokens -= 1
        self.answer(True)
        self.side.begin(request)
        self.assertEqual((len(self.asked[0]), self.matched(request)), (2, 1))

    def test_blocks_are_loaded_once_and_not_stored_again(self):
        request = Request(4)
        self.load(request, 2, [7, 5, 3, 1])
        self.side.allocated(request, [7, 5, 3, 1], 2 * BLOCK_TOKENS)  # as at its next chunk
        self.assertEqual(self.plan(numbers=[7, 5, 3, 1]), ([(request.names(0, 1), [7, 5])], [], set()))
        self.side.ended(["r"], set())
        request.compute(3)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1]), ([], [(request.names(2), [3])], set()))

    def test_blocks_that_a_step_is_computing_are_not_stored(self):
        request = Request(4)
        self.load(request, 0, [7, 5, 3, 1])
        request.compute(3, in_flight=2)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [(request.names(0), [7])])
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [])
        request.compute(3)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [(request.names(1, 2), [5, 3])])

    def test_blocks_of_a_finished_request_are_kept_until_they_were_read(self):
        request = Request(2)
        self.load(request, 1, [7, 5])
        self.plan()
        self.side.ended(["r"], set())
        request.compute(2)
        self.assertTrue(self.side.finished(request, [7, 5]))
        self.assertEqual(self.plan(), ([], [(request.names(1), [5])], {"r"}))

    def test_a_request_that_ends_while_it_loads_stores_nothing(self):
        request = Request(3)
        self.load(request, 1, [7, 5, 3])
        self.plan()
        request.compute(2)
        self.assertFalse(self.side.finished(request, [7, 5, 3]))
        self.assertEqual(self.plan(), ([], [], set()))

    def test_a_request_meets_no_block_twice_that_did_not_come(self):
        request = Request(4)
        self.load(request, 3, [7, 5, 3, 1])
        self.side.ended(["r"], {5})
        self.assertEqual(self.matched(request), 1)
        request.num_preemptions += 1
        self.answer(True)
        self.assertEqual(self.matched(request), 1)
        self.assertEqual(len(self.asked[-1]), 2)  # block 0 of two workers

    def test_what_is_computed_in_place_of_a_load_is_stored(self):
        request = Request(3)
        self.load(request, 2, [7, 5, 3])
        self.side.ended(["r"], {7})
        self.assertEqual(self.plan("r", numbers=[7, 5, 3])[1], [])
        request.compute(3)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3])[1], [(request.names(0, 1, 2), [7, 5, 3])])

    def test_a_failure_that_an_older_question_does_not_know_counts(self):
        request = Request(3)
        self.load(request, 3, [7, 5, 3])
        request.num_preemptions += 1
        self.side.set_shards([Shard(SPACE, 1)])
        late = FakeTicket([READY] * 3)
        self.tickets.append(late)
        self.assertIsNone(self.matched(request))
        self.side.ended(["r"], {3})
        late.end()
        self.assertEqual(self.matched(request), 2)

    def test_an_answer_about_other_shards_counts_for_nothing(self):
        request = Request(3)
        question = FakeTicket([READY] * 6)
        self.tickets.append(question)
        self.assertIsNone(self.matched(request))
        self.side.set_shards([Shard(SPACE, 1), Shard(farpage.KeySpace(model="m", rank="1"), 1), Shard(farpage.KeySpace(model="m", rank="2"), 2)])
        question.end()
        self.assertEqual(self.matched(request), 0)

    def test_a_request_that_was_preempted_asks_anew(self):
        request = Request(2)
        self.load(request, 2, [7, 5])
        request.num_preemptions += 1
        self.answer(True, False)
        self.assertEqual((self.matched(request), len(self.asked)), (1, 2))

    def test_another_request_of_the_same_name_has_its_own_blocks(self):
        one, two = Request(2, "one"), Request(2, "two")
        self.load(one, 0, [7, 5])
        self.load(two, 0, [3, 1])
        two.compute(2)
        self.assertEqual(self.plan("r", numbers=[3, 1])[1], [(two.names(0, 1), [3, 1])])

    def test_after_a_reset_nothing_of_before_is_found_or_stored(self):
        request = Request(2)
        self.load(request, 0, [7, 5])
        request.compute(2)
        self.side.reset()
        self.assertEqual(self.plan("r", numbers=[7, 5])[1], [])
        fresh = Request(2)
        self.load(fresh, 0, [7, 5])
        fresh.compute(2)
        (names, _), = self.plan("r", numbers=[7, 5])[1]
        self.assertFalse(set(names) & set(fresh.names(0, 1)))
        self.assertFalse({key.tobytes() for key in self.asked[0]} & {key.tobytes() for key in self.asked[1]})


class SettingsTest(unittest.TestCase):
    def test_times_and_lengths_are_above_0(self):
        for name in ("timeout_ms", "store_timeout_ms", "load_bytes", "store_bytes"):
            for value in (0, -1, True, "1"):
                with self.assertRaisesRegex(farpage.InvalidError, f"{name} is .*above 0"):
                    Settings.of({name: value})


if __name__ == "__main__":
    unittest.main()
