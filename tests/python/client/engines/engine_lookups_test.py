"""What a request of an engine knows of its keys: asked by the batch, answered in time, and once."""

import types
import unittest
from unittest import mock

from client_case import READY, RECOMPUTE, farpage
from fake_ticket import FakeTicket
from farpage.engines import lookups as module
from farpage.engines.figures import Figures
from farpage.engines.lookups import Lookups

FOREVER_S = 1000


class LookupsTest(unittest.TestCase):
    def setUp(self):
        self.now_s = 0.0
        clock = mock.patch.object(module, "time", types.SimpleNamespace(monotonic=lambda: self.now_s))
        clock.start()
        self.addCleanup(clock.stop)
        self.asked, self.tickets = [], []
        self.lookups = Lookups(list, self.begin, FOREVER_S)

    def begin(self, names):
        self.asked.append(names)
        self.tickets.append(FakeTicket([READY if name.startswith(b"there") else RECOMPUTE for name in names]))
        return self.tickets[-1]

    def test_keys_of_all_requests_are_one_question(self):
        self.assertEqual([self.lookups.find(name, request) for name, request in ((b"there 1", "a"), (b"gone", "a"), (b"there 1", "b"))], [None] * 3)
        self.assertTrue(self.lookups.is_waiting)
        self.lookups.ask()
        self.lookups.ask()
        self.assertEqual(self.asked, [[b"there 1", b"gone", b"there 1"]])
        self.assertIsNone(self.lookups.find(b"there 1", "a"))
        self.tickets[0].end()
        self.lookups.take()
        self.assertEqual([self.lookups.find(name, request) for name, request in ((b"there 1", "a"), (b"gone", "a"), (b"there 1", "b"))], [True, False, True])
        self.assertFalse(self.lookups.is_waiting)

    def test_each_request_has_the_answers_to_its_own_keys(self):
        asked = [(b"there 1", "a"), (b"gone", "a"), (b"gone", "b"), (b"there 2", "b")]
        for name, request in asked:
            self.lookups.find(name, request)
        self.lookups.ask()
        self.tickets[0].end()
        self.lookups.take()
        self.assertEqual([self.lookups.find(name, request) for name, request in asked], [True, False, False, True])

    def test_who_is_gone_before_the_question_is_not_asked_for(self):
        self.lookups.find(b"there 1", "a")
        self.lookups.find(b"there 2", "b")
        self.lookups.forget("a")
        self.lookups.ask()
        self.assertEqual(self.asked, [[b"there 2"]])

    def test_the_time_for_a_load_runs_from_the_first_answer(self):
        lookups = Lookups(list, self.begin, FOREVER_S)
        for name in (b"there 1", b"there 2", b"there 3"):
            lookups.find(name, "a")
        self.now_s = 50
        lookups.ask()
        self.tickets[0].end()
        lookups.take()
        self.now_s = 100
        self.assertTrue(lookups.find(b"there 1", "a"))
        self.now_s = 100 + FOREVER_S / 2
        self.assertTrue(lookups.find(b"there 2", "a"))
        self.assertEqual(lookups.left_s("a"), FOREVER_S / 2)
        self.now_s = 100 + FOREVER_S
        self.assertFalse(lookups.find(b"there 3", "a"))
        self.now_s += 1
        self.assertEqual(lookups.left_s("a"), 0)
        lookups.find(b"there 4", "a")  # a second question
        lookups.ask()
        self.assertEqual(lookups.left_s("a"), FOREVER_S)

    def test_a_question_that_takes_all_the_time_leaves_none(self):
        given = []
        lookups = Lookups(list, lambda names: FakeTicket([READY] * 2, took_s=[FOREVER_S + 1, 1]), FOREVER_S,
                          lambda names, found, left_s: given.append(left_s) or found)
        for name in (b"there 1", b"there 2"):
            lookups.find(name, "a")
        lookups.ask()
        lookups._asked[0][0].end()
        lookups.take()
        self.assertEqual((lookups.left_s("a"), given), (0, [0]))

    def test_it_knows_what_was_asked_for(self):
        self.lookups.find(b"there", "a")
        self.assertEqual([self.lookups.has_asked(names, request) for names, request in
                          (([b"there"], "a"), ([b"there", b"gone"], "a"), ([b"there"], "b"))], [True, False, False])

    def test_keys_that_were_never_asked_for_are_not_there_once_their_time_is_over(self):
        self.lookups.find(b"there 1", "a")
        self.now_s = FOREVER_S / 2
        self.assertEqual([self.lookups.find(name, "a") for name in (b"there 1", b"there 2")], [None, None])
        self.now_s = FOREVER_S
        self.assertEqual([self.lookups.find(name, "a") for name in (b"there 1", b"there 2")], [False, False])
        self.assertFalse(self.lookups.is_waiting)
        self.assertIsNone(self.lookups.find(b"there 3", "a"))  # another question has its own time

    def test_an_answer_that_is_there_counts_however_late_it_is_looked_at(self):
        for request in "ab":
            self.lookups.find(b"there", request)
        self.lookups.ask()
        self.now_s = FOREVER_S
        self.assertFalse(self.lookups.find(b"there", "a"))
        self.tickets[0].end()
        self.assertTrue(self.lookups.find(b"there", "b"))
        self.assertFalse(self.lookups.find(b"there", "a"))

    def test_asking_takes_answers_too(self):
        self.lookups.find(b"there", "a")
        self.lookups.ask()
        self.tickets[0].end()
        self.lookups.ask()
        self.assertTrue(self.lookups.find(b"there", "a"))

    def test_a_question_in_which_a_page_had_no_answer_is_a_stall(self):
        for reason, stalls in ((farpage.Reason.MISS, 0), (farpage.Reason.STALLED, 1), (farpage.Reason.UNREACHABLE, 1)):
            figures = Figures()
            ticket = FakeTicket([READY, RECOMPUTE], reason=reason, took_s=[0.25, 0.5])
            lookups = Lookups(list, lambda names, ticket=ticket: ticket, FOREVER_S, figures=figures)
            for name in (b"there", b"gone"):
                lookups.find(name, "a")
            lookups.ask()
            ticket.end()
            lookups.take()
            self.assertEqual((figures.of("stalls")["lookup"], figures.of("seconds")["lookup"]), (stalls, 0.5), reason)

    def test_a_second_question_has_its_own_time(self):
        took = iter((FOREVER_S / 4, 0))
        lookups = Lookups(list, lambda names: FakeTicket([READY] * len(names), took_s=next(took)), FOREVER_S)
        for name in (b"there 1", b"there 2"):
            lookups.find(name, "a")
            lookups.ask()
            lookups._asked[0][0].end()
            lookups.take()
        self.assertEqual(lookups.left_s("a"), FOREVER_S)

    def test_a_reset_forgets_questions_and_answers(self):
        for name in (b"there 1", b"there 2"):
            self.lookups.find(name, "a")
            self.lookups.ask()
        self.tickets[0].end()
        self.lookups.take()
        self.lookups.find(b"there 3", "a")
        self.lookups.reset()
        self.assertFalse(self.lookups.is_waiting)
        self.tickets[1].end()
        names = [b"there 1", b"there 2", b"there 3"]
        self.assertEqual([self.lookups.find(name, "a") for name in names], [None] * 3)
        self.lookups.ask()
        self.assertEqual(self.asked[-1], names)
        self.assertIsNone(self.lookups.find(b"there 2", "a"))

    def test_a_page_that_was_lost_is_found_by_no_request_of_now(self):
        for request in "ab":
            for name in (b"there", b"there 2", b"there 3"):
                self.lookups.find(name, request)
        self.lookups.ask()
        self.lookups.lose([b"there", b"there 3", b"never heard of"])
        self.tickets[0].end()
        self.lookups.take()  # an answer of before does not bring it back
        for request in "ab":
            self.assertEqual([self.lookups.find(name, request) for name in (b"there", b"there 2", b"there 3")], [False, True, False])
        self.assertIsNone(self.lookups.find(b"never heard of", "a"))  # asks for it
        self.lookups.forget("a")
        self.assertIsNone(self.lookups.find(b"there", "a"))  # asks anew

    def test_the_answer_to_a_request_that_is_gone_is_nobodys(self):
        self.lookups.find(b"there", "a")
        self.lookups.ask()
        self.lookups.forget("a")
        self.tickets[0].end()
        self.lookups.take()
        self.assertFalse(self.lookups.is_waiting)
        self.assertIsNone(self.lookups.find(b"there", "a"))

    def test_who_cannot_be_asked_has_nothing(self):
        def refuse(_):
            raise farpage.ExhaustedError("too many")

        for begin in (refuse, lambda _: None):
            lookups = Lookups(list, begin, FOREVER_S)
            self.assertIsNone(lookups.find(b"there", "a"))
            lookups.ask()
            self.assertFalse(lookups.find(b"there", "a"))
            self.assertFalse(lookups.is_waiting)


    def test_what_the_question_took_is_no_time_for_the_load(self):
        lookups = Lookups(list, lambda names: FakeTicket([READY] * len(names), took_s=FOREVER_S / 4), FOREVER_S)
        self.assertEqual(lookups.left_s("a"), FOREVER_S)
        lookups.find(b"there", "a")
        lookups.ask()
        lookups._asked[0][0].end()
        lookups.take()
        # Nothing runs until the engine hears of it.
        self.assertEqual(lookups.left_s("a"), FOREVER_S * 3 / 4)
        self.assertTrue(lookups.find(b"there", "a"))
        self.now_s = FOREVER_S / 4
        self.assertEqual(lookups.left_s("a"), FOREVER_S / 2)

    def test_answers_are_taken_once_and_then_need_no_call(self):
        names = [b"there %d" % number for number in range(8)]
        for name in names:
            self.lookups.find(name, "a")
        self.lookups.ask()
        self.tickets[0].end()
        self.lookups.take()
        self.lookups.take()
        self.assertEqual([self.lookups.find(name, "a") for name in names], [True] * 8)
        self.lookups.ask()
        self.assertEqual((self.tickets[0].results, len(self.tickets)), (1, 1))

    def test_an_answer_without_time_for_the_load_is_none(self):
        figures = Figures()
        lookups = Lookups(list, self.begin, 0, figures=figures)
        for request in "ab":
            lookups.find(b"there", request)
        lookups.ask()
        self.tickets[0].end()
        lookups.take()
        self.assertEqual([lookups.find(b"there", request) for request in "aab"], [False] * 3)
        self.assertEqual(figures.of("pages")["overdue"], 2)  # each page of a request counts once

    def test_names_of_a_question_are_made_once(self):
        made = []

        def name(names):
            made.append(list(names))
            return [each.upper() for each in names]

        lookups = Lookups(name, self.begin, FOREVER_S)
        asked = [(b"1", "a"), (b"2", "a"), (b"3", "a"), (b"2", "b")]
        for each, request in asked:
            lookups.find(each, request)
        self.assertEqual(lookups.names([b"x", b"y"], "a"), [b"X", b"Y"])  # not asked yet
        lookups.ask()
        self.assertEqual(made, [[b"x", b"y"], [b"1", b"2", b"3", b"2"]])
        made.clear()
        # In another order, with others between them, or of another request: made anew.
        for keys, request, is_new in (([b"1", b"2", b"3"], "a", False), ([b"2", b"3"], "a", False), ([b"2"], "b", False), ([], "a", True),
                                      ([b"2", b"1"], "a", True), ([b"1", b"3"], "a", True), ([b"3", b"4"], "a", True), ([b"3"], "b", True)):
            made.clear()
            self.assertEqual(lookups.names(keys, request), keys)
            self.assertEqual(made, [keys] if is_new else [], keys)

    def test_an_answer_is_spent_once(self):
        self.lookups.find(b"there", "a")
        self.lookups.find(b"there", "b")
        self.lookups.ask()
        self.tickets[0].end()
        self.lookups.take()
        self.lookups.spend(b"there", "a")
        self.assertEqual([self.lookups.find(b"there", request) for request in "ab"], [False, True])

    def test_of_what_is_there_a_part_may_be_chosen(self):
        seen = []

        def choose(names, found, left_s):
            seen.append((names, found, left_s))
            return [is_there and name != b"there 2" for name, is_there in zip(names, found)]

        lookups = Lookups(list, self.begin, FOREVER_S, choose)
        names = [b"there 1", b"gone", b"there 2"]
        for request in "ab":
            for name in names:
                lookups.find(name, request)
        lookups.ask()
        self.tickets[0].end()
        lookups.take()
        self.assertEqual(seen, [(names, [True, False, True], FOREVER_S)] * 2)
        self.assertEqual([lookups.find(name, "b") for name in names], [True, False, False])

    def test_an_answer_to_a_request_that_asks_anew(self):
        self.lookups.find(b"there", "a")
        self.lookups.ask()
        self.lookups.forget("a")  # it was preempted
        self.lookups.find(b"there 2", "a")
        self.tickets[0].end()
        self.lookups.ask()
        self.assertIsNone(self.lookups.find(b"there", "a"))
        self.tickets[1].end()
        self.lookups.take()
        self.assertTrue(self.lookups.find(b"there 2", "a"))


if __name__ == "__main__":
    unittest.main()
