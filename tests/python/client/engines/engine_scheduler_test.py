"""vLLM's connector in its scheduler, without vLLM: which blocks of a request are asked for, loaded
and stored, and under which names."""

import tomllib
import types
import unittest
import weakref
from unittest import mock

import numpy
from client_case import READY, RECOMPUTE, farpage
from fake_ticket import FakeTicket
from farpage.engines import connector_scheduler
from farpage.engines.connector_plan import Load, Settings, Shard
from farpage.engines.settings import check
from farpage.engines.connector_scheduler import SchedulerSide
from farpage.engines.figures import Figures
from program import SOURCE

BLOCK_TOKENS = 4
TIMEOUT_S = 10
SPACE = farpage.KeySpace(model="m")


class Request:
    """Of vLLM's: `blocks` whole blocks, and a token more. Block n's hash is `name` and n."""

    def __init__(self, blocks, name="r"):
        self.request_id, self.num_preemptions = "r", 0
        self.num_tokens = self.num_prompt_tokens = blocks * BLOCK_TOKENS + 1
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
        self.asked, self.tickets, self.figures = [], [], Figures()
        self.side = self.made()

    def made(self, **options):
        settings = Settings(timeout_ms=1000 * TIMEOUT_S, cost_model=options.pop("cost_model", False), prefill_tokens_per_s=BLOCK_TOKENS)
        side = SchedulerSide(settings, BLOCK_TOKENS, self.figures, **{"loads": False, "stores": True, "loads_ahead": True, **options})
        side._connection = types.SimpleNamespace(client=types.SimpleNamespace(exists=self.exists))
        side.set_shards([Shard(SPACE, 1), Shard(farpage.KeySpace(model="m", rank="1"), 1)])
        return side

    def exists(self, keys, timeout_s):
        self.assertEqual(timeout_s, TIMEOUT_S)
        self.asked.append(numpy.asarray(keys).reshape(-1, 16))
        ticket = self.tickets.pop(0)
        if ticket is None:
            raise farpage.UnavailableError("no node answers")
        return ticket

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

    def test_a_load_that_vllm_waits_for_reaches_the_workers_whatever_fails(self):
        """Without names the workers tell it as failed, for no page has the empty name."""
        request = Request(2)
        self.answer(True, True)
        self.side.begin(request)
        self.assertEqual(self.matched(request), 2)
        with mock.patch.object(self.side, "_names", side_effect=RuntimeError("anything")), self.assertLogs("farpage", "ERROR"):
            self.side.allocated(request, [7, 5, 3], 2 * BLOCK_TOKENS)
            request.compute(3)
            self.assertEqual(self.plan("r", numbers=[7, 5, 3]), ([([b"", b""], [7, 5])], [], set()))
        self.side.ended((), {7}, {})
        self.assertEqual(self.side._requests["r"].limit, 0)

    def test_a_plan_that_fails_has_its_loads(self):
        self.load(Request(2), 2, [7, 5])
        with mock.patch.object(self.side, "_computed", side_effect=RuntimeError("anything")), self.assertLogs("farpage", "ERROR"):
            loads, stores, _ = self.plan("r")
        self.assertEqual((len(loads), stores), (1, []))

    def test_figures_of_questions(self):
        for reason, stalls in ((farpage.Reason.MISS, 0), (farpage.Reason.STALLED, 1)):
            ticket = FakeTicket([READY, READY, RECOMPUTE, RECOMPUTE], took_s=[0.25, 0.5, 0.25, 0.25], reason=reason)
            ticket.end()
            self.tickets.append(ticket)
            self.assertEqual(self.matched(Request(2)), 1)
            self.assertEqual(self.figures.of("stalls")["lookup"], stalls)
        self.assertEqual(self.figures.of("seconds"), {"lookup": 1.0})

    def test_a_question_without_an_answer_is_over_in_time(self):
        request = Request(2)
        question = self.answer(True, True, is_done=False)
        self.side.begin(request)
        self.assertIsNone(self.matched(request))
        self.now_s = TIMEOUT_S
        self.assertEqual(self.matched(request), 0)
        question.end()  # too late
        self.assertEqual(self.matched(request), 0)

    def test_each_block_is_asked_for_of_each_worker_in_turn(self):
        shards = [Shard(SPACE, 1), Shard(farpage.KeySpace(model="m", rank="1"), 2)]
        self.side.set_shards(shards)
        request = Request(2)
        self.answer()
        self.side.begin(request)
        wanted = [shards[0].space.key(name + end) if worker == 0 else shards[1].space.key(name + end)
                  for name in request.names(0, 1) for worker, end in ((0, b"\0\0"), (1, b"\0\0"), (1, b"\1\0"))]
        self.assertEqual([key.tobytes() for key in self.asked[0]], wanted)

    def test_one_question_has_a_bound(self):
        self.answer(True, True)
        with mock.patch.object(connector_scheduler, "MOST_KEYS", 5):
            self.side.begin(Request(6))
        self.assertEqual(len(self.asked[0]), 4)  # whole blocks of two workers

    def test_who_has_nothing_to_ask_does_not(self):
        without_hashes = Request(2)
        without_hashes.block_hashes = []
        for request in (Request(0), without_hashes):
            self.assertEqual(self.matched(request), 0)
        self.side.set_shards([])  # the workers have not said yet
        self.assertEqual(self.matched(Request(2)), 0)
        self.assertEqual(self.asked, [])

    def test_a_question_that_is_refused_finds_nothing(self):
        """Also nothing of what an earlier one found."""
        for is_done in (True, False):
            request = Request(2, f"{is_done}")
            self.answer(True, True, is_done=is_done)
            self.side.begin(request)
            self.assertEqual(self.matched(request), 2 if is_done else None)
            request.num_preemptions += 1
            self.tickets.append(None)
            self.assertEqual(self.matched(request), 0)

    def test_its_client_asks_alone(self):
        settings = {"node": "n", "ahead": {"pages": 8}}
        for given, wanted in ((settings, {"node": "n", "staging_bytes": 0}), ({"config": "f"}, {"config": "f"})):
            with mock.patch.object(connector_scheduler, "Connection") as connection:
                side = SchedulerSide(Settings.of(given), BLOCK_TOKENS, self.figures, loads=True, stores=True, loads_ahead=True)
            self.assertEqual(connection.call_args.args[0], wanted)
            side.close()
            connection.return_value.close.assert_called_once_with()
        self.assertIn("ahead", settings)  # which the workers read

    def test_who_does_not_load_has_no_client(self):
        with mock.patch.object(connector_scheduler, "Connection") as connection:
            side = SchedulerSide(Settings.of({"node": "n"}), BLOCK_TOKENS, self.figures, loads=False, stores=True, loads_ahead=True)
        connection.assert_not_called()
        side.set_shards([Shard(SPACE, 1)])
        self.assertEqual(side.matched(Request(2), 0), 0)
        side.close()

    def test_a_client_and_a_ticket_that_throw_are_no_blocks(self):
        request, ticket = Request(2), FakeTicket(error=RuntimeError("anything"))
        ticket.end()
        self.tickets.append(ticket)
        with self.assertLogs("farpage", "ERROR") as said:
            for _ in range(2):  # the second time there is no ticket, and exists() throws
                self.side.begin(request)
                self.assertEqual(self.matched(request), 0)
        self.assertEqual(len(said.output), 2, said.output)

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
        self.side.ended(["r"], set(), {})
        request.compute(3)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1]), ([], [(request.names(2), [3])], set()))

    def test_blocks_that_vllm_has_itself_are_not_loaded(self):
        request = Request(4)
        self.answer(True, True, True, False)
        self.side.begin(request)
        self.assertEqual(self.matched(request, computed=1), 2)
        self.side.allocated(request, [7, 5, 3, 1], 2 * BLOCK_TOKENS)
        self.assertEqual(self.plan(numbers=[7, 5, 3, 1])[0], [(request.names(1, 2), [5, 3])])
        self.side.ended([], {3}, {})
        request.num_preemptions += 1
        self.answer(True, True)
        self.assertEqual(self.matched(request), 2)

    def test_where_nothing_is_found_nothing_is_loaded(self):
        request = Request(2)
        self.load(request, 0, [7, 5])
        self.assertEqual(self.plan(), ([], [], set()))

    def test_blocks_that_a_step_is_computing_are_not_stored(self):
        request = Request(4)
        self.load(request, 0, [7, 5, 3, 1])
        request.compute(0, in_flight=1)  # as when a step's tokens were taken back
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [])
        request.compute(3, in_flight=2)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [(request.names(0), [7])])
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [])
        request.compute(3)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [(request.names(1, 2), [5, 3])])

    def test_blocks_of_a_finished_request_are_kept_until_they_were_read(self):
        request = Request(2)
        self.load(request, 1, [7, 5])
        self.plan()
        self.side.ended(["r"], set(), {})
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

    def test_layers_have_come_when_their_request_ends(self):
        self.side = self.made(loads_ahead=False)
        request = Request(2)
        self.load(request, 1, [7, 5])
        self.plan()
        request.compute(2)
        self.assertTrue(self.side.finished(request, [7, 5]))
        self.assertEqual(self.plan(), ([], [(request.names(1), [5])], {"r"}))

    def test_a_request_with_nothing_to_store_ends_at_once(self):
        request = Request(2)
        self.load(request, 0, [7, 5])
        self.assertFalse(self.side.finished(request, [7, 5]))
        self.assertEqual(self.plan(), ([], [], set()))

    def test_who_does_not_store_keeps_no_blocks(self):
        self.side = self.made(stores=False)
        request = Request(2)
        self.load(request, 0, [7, 5])
        request.compute(2)
        self.assertEqual(self.plan("r", numbers=[7, 5]), ([], [], set()))
        self.assertFalse(self.side.finished(request, [7, 5]))
        self.assertEqual(self.plan(), ([], [], set()))

    def test_blocks_without_a_name_or_a_number_are_not_stored(self):
        request = Request(3)
        self.load(request, 0, [7, 5, 3])
        request.compute(2)
        self.assertEqual(self.plan("r", "unknown", numbers=[7])[1], [(request.names(0), [7])])
        request.compute(4)  # more than it has hashes
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [(request.names(2), [3])])

    def test_nothing_of_a_request_is_kept_that_is_gone(self):
        request = Request(2)
        self.load(request, 1, [7, 5])
        self.plan()
        self.side.finished(request, [7, 5])
        self.side.ended(["r"], {7}, {})  # which the workers tell of a request that is gone
        gone = weakref.ref(request)
        del request
        self.assertIsNone(gone())

    def test_what_waits_for_blocks_of_vllms_is_announced_once(self):
        request, others = Request(4), Request(2, "others")
        others.request_id = "others"
        self.load(others, 2, [7, 5])  # vLLM has blocks for it
        self.answer(True, True, True, False)
        self.side.begin(request)
        for wanted in (request.names(1, 2), []):
            self.assertEqual(self.matched(request, computed=1), 2)
            self.assertEqual(self.side.plan([], None).announced, wanted)

    def test_the_first_block_that_did_not_come_ends_what_is_found(self):
        for failures in ([{5, 1}], [{5}, {1}], [{1}, {5}]):
            request = Request(4, f"{failures}")
            self.load(request, 4, [7, 5, 3, 1])
            for failed in failures:
                self.side.ended([], failed, {})
            self.assertEqual(self.matched(request), 1)
            request.num_preemptions += 1
            self.answer(True)
            # Block 0 of two workers is asked for, and no other.
            self.assertEqual((self.matched(request), len(self.asked[-1])), (1, 2))

    def test_a_request_meets_no_block_twice_that_did_not_come(self):
        request = Request(4)
        self.load(request, 3, [7, 5, 3, 1])
        self.side.ended(["r"], {5}, {})
        self.assertEqual(self.matched(request), 1)
        request.num_preemptions += 1
        self.answer(True)
        self.assertEqual(self.matched(request), 1)
        self.assertEqual(len(self.asked[-1]), 2)  # block 0 of two workers

    def test_what_is_computed_in_place_of_a_load_is_stored(self):
        request = Request(3)
        self.load(request, 2, [7, 5, 3])
        self.side.ended(["r"], {7}, {})
        self.assertEqual(self.plan("r", numbers=[7, 5, 3])[1], [])
        request.compute(3)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3])[1], [(request.names(0, 1, 2), [7, 5, 3])])

    def test_what_is_cheaper_to_compute_is_left_and_only_the_rest_is_stored(self):
        """A block takes a second to compute."""
        self.side = self.made(cost_model=True)
        self.side.ended([], set(), {"other": Load(1, 3.0)})
        self.side.ended(["other"], set(), {})
        request = Request(4)
        self.load_nothing(request, there=2)
        request.compute(3)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [(request.names(2), [3])])
        # A node that has lost them by the next question gets them.
        request.num_preemptions += 1
        self.load_nothing(request, there=0)
        request.compute(0)
        self.plan("r", numbers=[])
        request.compute(4)
        self.assertEqual(self.plan("r", numbers=[7, 5, 3, 1])[1], [(request.names(0, 1, 2, 3), [7, 5, 3, 1])])

    def load_nothing(self, request, there):
        self.answer(*[True] * there, *[False] * (len(request.block_hashes) - there))
        self.side.begin(request)
        self.assertEqual(self.matched(request), 0)
        self.side.allocated(request, [], 0)

    def test_a_failure_that_an_older_question_does_not_know_counts(self):
        request = Request(3)
        self.load(request, 3, [7, 5, 3])
        request.num_preemptions += 1
        self.side.set_shards([Shard(SPACE, 1)])
        late = FakeTicket([READY] * 3)
        self.tickets.append(late)
        self.assertIsNone(self.matched(request))
        self.side.ended(["r"], {3}, {})
        late.end()
        self.assertEqual(self.matched(request), 2)

    def test_an_answer_about_other_shards_counts_for_nothing(self):
        request = Request(3)
        question = FakeTicket([READY] * 6)
        self.tickets.append(question)
        self.assertIsNone(self.matched(request))
        shards = [Shard(SPACE, 1), Shard(farpage.KeySpace(model="m", rank="1"), 1), Shard(farpage.KeySpace(model="m", rank="2"), 2)]
        self.side.set_shards(shards)
        question.end()
        self.assertEqual(self.matched(request), 0)
        other = Request(1, "other")
        self.tickets.append(FakeTicket([READY] * 4))
        self.tickets[0].end()
        self.assertEqual(self.matched(other), 1)
        self.side.set_shards(shards)
        self.assertEqual(self.matched(other), 0)

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

    def test_another_request_of_the_same_name_asks_anew(self):
        self.load(Request(2, "one"), 2, [7, 5])
        self.answer(False, True)
        self.assertEqual((self.matched(Request(2, "two")), len(self.asked)), (0, 2))

    def test_after_a_reset_nothing_of_before_is_found_or_stored(self):
        request = Request(2)
        self.load(request, 1, [7, 5])
        request.compute(2)
        self.plan()
        self.side.reset()
        self.assertEqual(self.matched(request), 0)
        request.num_preemptions += 1
        self.assertEqual((self.matched(request), len(self.asked)), (0, 1))
        self.assertEqual(self.plan("r", numbers=[7, 5])[1], [])
        fresh = Request(2)
        self.load(fresh, 0, [7, 5])
        fresh.compute(2)
        (names, _), = self.plan("r", numbers=[7, 5])[1]
        self.assertFalse(set(names) & set(fresh.names(0, 1)))
        self.assertFalse({key.tobytes() for key in self.asked[0]} & {key.tobytes() for key in self.asked[1]})

    def test_an_open_question_of_before_a_reset_finds_nothing(self):
        request = Request(2)
        question = self.answer(True, True, is_done=False)
        self.side.begin(request)
        self.side.reset()
        self.assertEqual(self.matched(request), 0)
        question.end()
        self.assertEqual(self.matched(request), 0)


class ShardTest(unittest.TestCase):
    def test_each_part_of_a_block_has_a_key_that_its_worker_and_its_name_decide(self):
        one, two = Shard(SPACE, 3), Shard(farpage.KeySpace(model="m", rank="1"), 3)
        keys = [shard.keys([b"a", b"b"]) for shard in (one, two)]
        self.assertEqual({each.shape for each in keys}, {(2, 3, 16)})
        self.assertEqual(len({key.tobytes() for each in keys for key in each.reshape(-1, 16)}), 12)
        self.assertEqual([one.keys([name])[0].tolist() for name in (b"a", b"b")], keys[0].tolist())


class SettingsTest(unittest.TestCase):
    def test_whatever_is_not_the_connectors_is_the_clients(self):
        settings = Settings.of({"timeout_ms": 0.5, "salt": "s", "node": "n", "client": 1})
        self.assertEqual((settings.timeout_s, settings.salt, settings.client), (0.0005, "s", {"node": "n", "client": 1}))

    def test_another_form_of_pages_is_refused(self):
        with self.assertRaisesRegex(farpage.InvalidError, "pages is 'head': give \"block\""):
            Settings.of({"pages": "head"})

    def test_settings_of_other_adapters_are_refused(self):
        for name, value in (("locality", "LOCAL"), ("start_ms", 0), ("chunk_tokens", 1), ("model", "m")):
            with self.assertRaisesRegex(farpage.InvalidError, f"FarpageConnector has no setting {name}: remove it"):
                Settings.of({name: value})
        self.assertEqual(Settings.of({"ahead": {"pages": 1}, "lanes": 2}).client, {"ahead": {"pages": 1}, "lanes": 2})

    def test_a_setting_that_is_misspelt_is_told_with_the_right_one(self):
        for name, right in (("timeout_sm", "timeout_ms"), ("cost_modell", "cost_model"), ("salts", "salt")):
            with self.assertRaisesRegex(farpage.InvalidError, f"no setting {name}; did you mean {right}"):
                Settings.of({name: 1})

    def test_no_key_of_a_client_is_taken_for_a_misspelt_setting(self):
        tables = tomllib.loads((SOURCE / "configs/client.toml").read_text(encoding="utf-8"))
        keys = {**dict.fromkeys([*tables, *tables["client"]]), "ahead": {"pages": 1}}
        self.assertGreater(len(keys), 15)
        self.assertEqual(Settings.of(keys).client, keys)

    def test_times_and_lengths_are_above_0(self):
        for name in ("timeout_ms", "store_timeout_ms", "load_bytes", "store_bytes"):
            for value in (0, -1, True, "1"):
                with self.assertRaisesRegex(farpage.InvalidError, f"{name} is .*above 0"):
                    Settings.of({name: value})

    def test_each_refusal_says_what_to_write(self):
        refused = {"timeout_ms": ("200", 0, -200, True, None, float("nan"), float("inf")), "store_timeout_ms": ("5000", 0),
                   "load_bytes": ("256MiB", 0, 1e9, 0.5), "store_bytes": ("1GiB", -1, 1e9), "start_ms": ("1", -1), "prefill_tokens_per_s": (-1, "fast"),
                   "chunk_tokens": ("256", 2.5, -1), "cost_model": ("true", 1), "allow_untested": ("yes",), "salt": (1, None), "model": (1,),
                   "locality": ("remote", 1), "pages": ("head", []), "ahead": (True, 64)}
        for name, values in refused.items():
            for value in values:
                with self.assertRaises(farpage.InvalidError, msg=(name, value)) as said:
                    check(**{name: value})
                self.assertRegex(str(said.exception), f"^{name} is .*: give [^']")
        with self.assertRaisesRegex(farpage.InvalidError, 'ahead is 64: give {"pages": N}, N pages to fetch ahead, or remove the key$'):
            check(ahead=64)
        taken = {"timeout_ms": 0.5, "load_bytes": 1, "chunk_tokens": 0, "start_ms": 0, "prefill_tokens_per_s": 0, "cost_model": True, "salt": "", "locality": "LOCAL",
                 "pages": "layer", "ahead": {"pages": 64}, "node": "n", "lanes": "of others"}
        check(**taken)


if __name__ == "__main__":
    unittest.main()
