"""Replays of a synthetic decode whose pages are really fetched, beside virtual time."""

import json
import unittest

from program import Case

PAGE_BYTES = 4096
BUDGET = 60
STEPS = 150
LINK_TEXT = "1ms,4MB/s"  # a page takes a millisecond, and one more until it is there


class LiveTest(Case):
    def setUp(self):
        super().setUp()
        self.trace = self.folder / "decode.trace"
        made = self.run_program("generate", "reasoning", "--set", "layers=1", "--set", "heads=2", "--tokens", STEPS,
                                "--output", self.trace, "--truth", self.folder / "truth.csv")
        self.assertEqual(made.returncode, 0, made.stderr)

    def arguments(self, *more, prefetch="none", budget=BUDGET, page_bytes=PAGE_BYTES, compute_us=2000, link=LINK_TEXT):
        return ("live", self.trace, "--format", "access", "--policy", "lru", "--budget", budget, "--prefetch", prefetch,
                "--page-bytes", page_bytes, "--compute-us", compute_us, "--link", link, *more)

    def replay(self, *more, **options):
        result = self.run_program(*self.arguments("--json", "-", *more, **options))
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        return {(run["prefetch"], run["clock"]): run for run in answer["runs"]}

    def test_what_needs_no_clock_is_what_virtual_time_says(self):
        for backend in ("shm", "tcp"):
            runs = self.replay("--backend", backend, prefetch="none,oracle")
            self.assertEqual(set(runs), {(name, clock) for name in ("none", "oracle") for clock in ("virtual", "live")})
            virtual, live = runs["none", "virtual"], runs["none", "live"]
            for same in ("steps", "accesses", "hits", "first_accesses", "evictions", "demand_fetches", "overfull_steps"):
                self.assertEqual(live[same], virtual[same], same)
            self.assertGreater(live["demand_fetches"], 50)
            # No page comes sooner than the link allows.
            self.assertGreaterEqual(live["stall_s"], 0.999 * virtual["stall_s"])
            for name in ("none", "oracle"):
                live = runs[name, "live"]
                self.assertEqual((live["wrong_bytes"], live["recomputed_pages"], live["failed"]), (0, 0, 0))
            self.assertGreater(runs["oracle", "live"]["useful"], 20)
            self.assertLess(runs["oracle", "live"]["demand_fetches"], runs["none", "live"]["demand_fetches"])
            self.assertLessEqual(sum(runs["oracle", "live"][name] for name in ("timely", "late", "unused", "evicted_unused", "failed")),
                                 runs["oracle", "live"]["prefetches"])

    def test_a_node_that_dies_in_the_middle(self):
        node = self.start_node("--page-bytes", PAGE_BYTES, "--set", "node.lease_ms=1000")
        replay = self.start_program(*self.arguments("--json", "-", "--node", node.address, prefetch="oracle", compute_us=40_000))
        said = ""
        for line in replay.stderr:
            said += line
            if "accesses" in line:
                break
        node.kill()
        output, errors = replay.communicate(timeout=120)
        self.assertEqual(replay.returncode, 0, said + errors)
        live = next(run for run in json.loads(output)["runs"] if run["clock"] == "live")
        self.assertEqual((live["steps"], live["wrong_bytes"]), (STEPS, 0))
        self.assertGreater(live["recomputed_pages"], 0)

    def test_a_report_has_both(self):
        folder = self.folder / "out"
        result = self.run_program(*self.arguments("--report", folder, prefetch="none,markov"))
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in ("virtual", "live", "synthetic"):
            self.assertIn(word, result.stdout)
            self.assertIn(word, (folder / "report.html").read_text())
        self.assertEqual(len(json.loads((folder / "report.json").read_text())["runs"]), 4)

    def refused(self, *arguments):
        result = self.run_program(*arguments)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def test_what_cannot_be_replayed_is_refused_with_what_can(self):
        self.assertIn("48 pages", self.refused(*self.arguments(budget=47)))
        for link in ("fast", "1ms", "1ms,0GB/s"):
            self.assertIn("25us,10GB/s", self.refused(*self.arguments(link=link)))
        self.assertIn("--tier", self.refused(*self.arguments("--tier", "gbps=1")))
        self.assertIn("64 bytes", self.refused(*self.arguments(page_bytes=32)))

    def test_what_virtual_time_says_is_told_though_no_page_can_be_fetched(self):
        for words, arguments in (("pages", ("--pool-bytes", "256KiB")), ("/nowhere", ("--node", "/nowhere"))):
            result = self.run_program(*self.arguments("--json", "-", *arguments))
            self.assertEqual(result.returncode, 1)
            for part in (words, "only the virtual-time results"):
                self.assertIn(part, result.stderr)
            self.assertEqual([run["clock"] for run in json.loads(result.stdout)["runs"]], ["virtual"])


if __name__ == "__main__":
    unittest.main()
