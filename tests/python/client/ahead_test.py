"""Pages fetched ahead, flush and counts, in Python."""

import ctypes
import dataclasses
import re
import signal
import time
import unittest

from client_case import PAGE_BYTES, SOURCE, ClientCase, contents, farpage, key, keys, numpy
from farpage import buffers
from farpage._library import Notification
from farpage.accesses import ACCESS
from farpage.ticket import PUT_RESULT, VERDICT
from program import Case, stop_node, wait_until

EMBEDDED = {"pool_bytes": "8MiB", "page_bytes": PAGE_BYTES}
COLUMNS = ("head", "category", "mass", "score", "similarity", "entropy", "margin", "mark")
ZEROS = dict.fromkeys((field.name for field in dataclasses.fields(farpage.Statistics)), 0)


class AheadCase(ClientCase):
    def setUp(self):
        self.sources = contents(0, 8)
        self.put(keys(0, 8), self.sources)

    def assert_comes_true(self, condition):
        self.assertTrue(wait_until(condition), self.client.statistics())


class AheadTest(AheadCase):
    settings = {"embedded": EMBEDDED, "ahead": {"pages": 32}}

    def test_an_announced_page_is_near_when_it_is_fetched(self):
        before = self.client.statistics()
        self.client.announce(keys(0, 8), wanted_in_s=None)
        self.assert_comes_true(lambda: self.client.statistics().fetched_ahead == before.fetched_ahead + 8)
        landed = numpy.empty_like(self.sources)
        self.fetch(keys(0, 8), landed)
        self.assertTrue((landed == self.sources).all())
        now = self.client.statistics()
        self.assertEqual(now.near_ready - before.near_ready, 8)
        self.assertEqual(now.ready - before.ready, 8)
        self.assertEqual(now.ready_bytes - before.ready_bytes, self.sources.nbytes)

    def test_what_was_withdrawn_leaves(self):
        self.client.announce(keys(0, 8), wanted_in_s=None)
        self.assert_comes_true(lambda: self.client.statistics().ahead_places == 8)
        self.client.withdraw(keys(0, 7))
        self.assert_comes_true(lambda: self.client.statistics().ahead_places == 1)
        self.client.withdraw(key(7))
        self.assert_comes_true(lambda: self.client.statistics().ahead_places == 0)

    def test_an_announced_page_goes_by_itself(self):
        with farpage.open(embedded=EMBEDDED, ahead={"pages": 8, "linger_ms": 1}) as client:
            self.put(keys(0, 1), self.sources[:1], client)

            def has_come():
                client.announce(key(0), wanted_in_s=0)
                return client.statistics().fetched_ahead >= 1

            self.assertTrue(wait_until(has_come), client.statistics())
            self.assertTrue(wait_until(lambda: client.statistics().ahead_places == 0), client.statistics())

    def test_keys_in_each_form(self):
        array = numpy.frombuffer(b"".join(keys(100, 4)), numpy.uint8).reshape(4, 16)
        for names in (key(100), keys(100, 4), tuple(keys(100, 4)), array, array[0], array[::2], array.T.copy().T, []):
            self.client.announce(names)
            self.client.observe(names, 1)
            self.client.mark_milestones(names)
            self.client.withdraw(names)

    def test_keys_that_are_wrong(self):
        for names in (b"short", [key(0), b"short"], numpy.zeros((4, 8), numpy.uint8), numpy.zeros((4, 16), numpy.int8), 7):
            for call in (self.client.announce, self.client.withdraw, self.client.mark_milestones, lambda bad: self.client.observe(bad, 1)):
                with self.assertRaisesRegex(farpage.InvalidError, "keys are 16 bytes each"):
                    call(names)

    def test_times_that_are_wrong(self):
        for time_s in (-1, -1e-9, float("nan")):
            with self.assertRaisesRegex(farpage.InvalidError, "a time of .* s: give 0 or more"):
                self.client.announce(key(0), wanted_in_s=time_s)
            with self.assertRaisesRegex(farpage.InvalidError, "a timeout of .* s: give 0 or more"):
                self.client.flush(timeout_s=time_s)
        self.client.announce(key(100), wanted_in_s=1e30)
        self.client.withdraw(key(100))


class ObserveTest(AheadCase):
    settings = {"embedded": EMBEDDED, "ahead": {"pages": 32, "prefetcher": "previous_selection", "heads": 2}}

    def test_a_prefetcher_brings_what_it_expects(self):
        told = iter(range(1, 1 << 62))

        def is_fetched_ahead():
            try:
                self.client.observe(keys(0, 8), next(told), head=numpy.arange(8) % 2, mass=numpy.full(8, 0.1, numpy.float32), mark=farpage.Mark.EXPLORES)
            except farpage.ExhaustedError:
                pass
            return self.client.statistics().fetched_ahead > 0

        self.assert_comes_true(is_fetched_ahead)
        self.client.mark_milestones(keys(0, 8))

    def test_one_number_is_of_all_accesses(self):
        for column in COLUMNS:
            for value in (1, numpy.int8(1), [1] * 4, numpy.ones(4, numpy.uint64), numpy.ones(8, numpy.int16)[::2], numpy.full(4, 1, ">i4")):
                self.client.observe(keys(100, 4), numpy.arange(4), **{column: value})

    def test_the_limits_of_each_column(self):
        names = keys(100, 2)
        self.client.observe(names, numpy.array([0, (1 << 64) - 1], numpy.uint64), head=[0, (1 << 32) - 1], category=(1 << 32) - 1, score=[-3e38, 3e38], mark=4)
        for column, value in (("step", -1), ("step", 1 << 64), ("step", [0, -1]), ("head", 1 << 32), ("category", [1, -1]), ("mark", -1),
                              ("mass", float("nan")), ("score", 1e39), ("score", [0, float("inf")]), ("step", 0.5), ("mark", "1"), ("mass", None),
                              ("mass", "much"), ("head", [[0], [0, 1]]), ("category", True), ("entropy", b"1"), ("margin", 1j)):
            with self.subTest(column=column, value=value), self.assertRaisesRegex(farpage.InvalidError, f"^{column} is "):
                self.client.observe(names, **{"step": 1, column: value})
        with self.assertRaisesRegex(farpage.InvalidError, "access 1: mark is 5"):
            self.client.observe(names, 1, mark=[0, 5])

    def test_arrays_of_different_lengths(self):
        for column in ("step", *COLUMNS):
            for value in ([1] * 3, [1] * 5, [1], [], numpy.ones((4, 1), numpy.uint32), numpy.ones((2, 2), numpy.uint32)):
                with self.assertRaisesRegex(farpage.InvalidError, f"there are 4 keys, and {column} has the shape"):
                    self.client.observe(keys(100, 4), **{"step": 1, column: value})


class HeaderTest(unittest.TestCase):
    """The structs are those of the C header, field by field."""

    FORMATS = {"size_t": "u8", "uint64_t": "u8", "uint32_t": "u4", "float": "f4", "farpage_key_t": "(2,)u8", "farpage_verdict_t": "u4", "farpage_reason_t": "u4",
               "farpage_code_t": "u4"}

    def fields_of(self, struct):
        header = (SOURCE / "include/farpage/farpage.h").read_text(encoding="utf-8")
        body = re.search(rf"typedef struct {struct} {{(.*?)}}", header, re.DOTALL).group(1)
        fields = re.findall(r"^  (\w+)( |\* | \(\*)(\w+)(?:\)\(.*\)|\[(\d)\])?;", body, re.MULTILINE)
        return [(name, f"({count},){self.FORMATS[kind]}" if count else self.FORMATS[kind] if star == " " else "u8") for kind, star, name, count in fields]

    def test_of_an_access(self):
        self.assertEqual(ACCESS, numpy.dtype(self.fields_of("farpage_access"), align=True))

    def test_of_verdicts_and_results(self):
        for struct, ours in (("farpage_page_verdict", VERDICT), ("farpage_put_result", PUT_RESULT)):
            whole = numpy.dtype(self.fields_of(struct), align=True)
            self.assertEqual(ours.itemsize, whole.itemsize)
            self.assertEqual({name for name in whole.names if "reserved" not in name}, set(ours.names))
            for name in ours.names:
                self.assertEqual(ours.fields[name][1], whole.fields[name][1], name)
                if name != "held":  # of which the first byte is seen
                    self.assertEqual(ours[name], whole[name], name)

    def test_of_a_notification(self):
        fields = self.fields_of("farpage_notification")
        self.assertEqual([name for name, _ in Notification._fields_], [name for name, _ in fields])
        whole = numpy.dtype(fields, align=True)
        self.assertEqual([getattr(Notification, name).offset for name in whole.names], [whole.fields[name][1] for name in whole.names])
        self.assertEqual(ctypes.sizeof(Notification), whole.itemsize)

    def test_of_the_words_of_a_page(self):
        whole = numpy.dtype(self.fields_of("farpage_page"), align=True)
        words = {"struct_size": buffers.PAGE_SIZE, "key": buffers.KEY, "data": buffers.DATA, "bytes": buffers.BYTES, "min_version": buffers.MIN_VERSION}
        self.assertEqual({name: 8 * word for name, word in words.items()}, {name: whole.fields[name][1] for name in whole.names})
        self.assertEqual(8 * buffers.PAGE_WORDS, whole.itemsize)

    def test_of_the_counts(self):
        named = [("struct_size", "u8"), *((field.name, "u8") for field in dataclasses.fields(farpage.Statistics))]
        self.assertEqual(named, self.fields_of("farpage_statistics"))


class WithoutAheadTest(AheadCase):
    settings = {"embedded": EMBEDDED}

    def test_the_sentence_names_what_is_missing(self):
        for call in (self.client.announce, self.client.withdraw, self.client.mark_milestones, lambda names: self.client.observe(names, 1)):
            with self.assertRaisesRegex(farpage.InvalidError, r"ahead\.pages"):
                call(keys(0, 2))

    def test_statistics_count_what_was_done(self):
        with farpage.open(embedded=EMBEDDED) as client:
            free = client.statistics()
            self.assertEqual(dataclasses.asdict(free), {**ZEROS, "fetch_tickets_free": free.fetch_tickets_free, "put_tickets_free": free.put_tickets_free})
            self.assertGreater(min(free.fetch_tickets_free, free.put_tickets_free), 0)
            version = int(self.put(keys(0, 3), self.sources[:3], client)["version"][0])
            self.fetch(keys(0, 2), self.sources[:2].copy(), client)
            one = bytearray(PAGE_BYTES)
            self.assertEqual(client.fetch(key(50), one, timeout_s=30).wait()["reason"][0], farpage.Reason.MISS)
            self.assertEqual(client.fetch(key(0), one, min_version=version + 1000, timeout_s=30).wait()["reason"][0], farpage.Reason.STALE)
            self.assertTrue(wait_until(lambda: client.statistics().under_way == 0))
            counts = client.statistics()
        self.assertEqual(dataclasses.asdict(counts), {**dataclasses.asdict(free), "ready": 2, "ready_bytes": 2 * PAGE_BYTES, "miss": 1, "stale": 1, "puts_acknowledged": 3,
                                                      "fetch_tickets_free": counts.fetch_tickets_free, "put_tickets_free": counts.put_tickets_free})
        with self.assertRaises(dataclasses.FrozenInstanceError):
            counts.ready = 0

    def test_flush_after_puts(self):
        tickets = [self.client.put(keys(8 * n, 8), contents(8 * n, 8), timeout_s=30) for n in range(6)]
        tickets.append(self.client.remove(keys(8, 8), timeout_s=30))
        self.client.flush(timeout_s=30)
        self.assertTrue(all(ticket.done for ticket in tickets))
        self.assertEqual({int(code) for ticket in tickets[:-1] for code in ticket.result()["code"]}, {0})
        self.client.flush(timeout_s=0)

    def test_flush_minds_puts_whose_ticket_was_dropped(self):
        before = self.client.statistics().puts_acknowledged
        for _ in range(8):
            self.client.put(keys(0, 8), self.sources, timeout_s=30)
        self.client.flush(timeout_s=None)
        self.assertEqual(self.client.statistics().puts_acknowledged - before, 64)

    def test_a_closed_client(self):
        client = farpage.open(embedded=EMBEDDED)
        client.close()
        for call in (lambda: client.announce(key(0)), lambda: client.withdraw(key(0)), lambda: client.mark_milestones(key(0)), lambda: client.observe(key(0), 1),
                     client.flush, client.statistics):
            with self.assertRaisesRegex(farpage.InvalidError, "the client is closed"):
                call()


class StoppedNodeTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.start_node()
        self.client = farpage.open(str(self.node.socket))
        self.addCleanup(self.client.close)

    def test_flush_ends_in_time_and_the_put_goes_on(self):
        stop_node(self, self.node)
        ticket = self.client.put(key(1), bytes(PAGE_BYTES), timeout_s=60)
        began = time.monotonic()
        for timeout_s in (0, 0.05):
            with self.assertRaisesRegex(farpage.FarpageTimeoutError, "flush again"):
                self.client.flush(timeout_s=timeout_s)
        self.assertGreaterEqual(time.monotonic() - began, 0.05)
        self.assertFalse(ticket.done)
        self.assertEqual(self.client.statistics().under_way, 1)
        self.node.send_signal(signal.SIGCONT)
        self.client.flush(timeout_s=60)
        self.assertEqual(ticket.result()["code"][0], farpage.Code.OK)


if __name__ == "__main__":
    unittest.main()
