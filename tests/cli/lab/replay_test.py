"""Replays whose counts an independent model knows, and traces that cannot be replayed."""

import json
import os
import random
import unittest

from counts import Counts
from production import ProductionTrace
from program import Case
from replay_traces import write_trace


class ReplayTest(Counts, Case):
    def replay_trace(self, trace, *arguments):
        result = self.run_program("replay", trace, "--format", "mooncake", "--page-bytes", "4096",
                                  "--pool-bytes", "64MiB", *arguments, "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_counts_are_those_of_a_model(self):
        draw = random.Random(5)
        # Ids repeat within a request as well, which no LRU of a few pages can hide.
        requests = [[draw.randrange(400) for _ in range(draw.randrange(60))] for _ in range(300)]
        trace = self.folder / "trace.jsonl"
        write_trace(trace, requests)
        for local_pages in (0, 1, 7, 100, 1000):
            answer = self.replay_trace(trace, "--local-pages", local_pages)
            self.assert_counts(answer, requests, local_pages)
        self.assert_nothing_left()

    def test_a_request_longer_than_one_fetch(self):
        requests = [list(range(3000)), list(range(1000, 4000)), [2**63]]
        trace = self.folder / "trace.jsonl"
        write_trace(trace, requests)
        for local_pages in (0, 1500):
            answer = self.replay_trace(trace, "--local-pages", local_pages)
            self.assert_counts(answer, requests, local_pages)
            self.assertGreater(answer["fetches"], 3)

    def test_what_a_result_says(self):
        trace = self.folder / "trace.jsonl"
        write_trace(trace, [[1, 2], [1, 3]])
        answer = self.replay_trace(trace, "--requests", 1)
        self.assertEqual(answer["requests"], 1)
        for key in ("version", "path", "backend", "hardware", "configuration", "bytes_per_s", "wall_seconds"):
            self.assertIn(key, answer)
        self.assertEqual(set(answer["fetch_us"]), {"count", "p50", "p90", "p99", "p999", "p9999"})
        self.assertFalse(answer["trace"]["synthetic"])

    def test_table_and_report(self):
        result = self.run_program("replay", "generate", "--requests", 50, "--pool-bytes", "256MiB", "--report", "out/a")
        self.assertEqual(result.returncode, 0, result.stderr)
        for text in ("wrong bytes", "synthetic", "p99.9", "GB/s", "out/a/report.html"):
            self.assertIn(text, result.stdout)
        report = json.loads((self.folder / "out/a/report.json").read_text())
        self.assertTrue(report["trace"]["synthetic"])
        self.assertIn("<svg", (self.folder / "out/a/report.html").read_text())

    def test_the_seed_decides(self):
        first, same, other = (self.replay_trace("generate", "--requests", 200, "--seed", seed) for seed in (3, 3, 4))
        self.assertEqual(first["pages_demanded"], same["pages_demanded"])
        self.assertEqual(first["verdicts"], same["verdicts"])
        self.assertNotEqual(first["pages_demanded"], other["pages_demanded"])

    def test_where_the_trace_is_looked_for(self):
        self.environment.pop("FARPAGE_TRACES", None)
        arguments = ("replay", "--requests", 2, "--page-bytes", 4096, "--pool-bytes", "64MiB", "--json", "-")
        origin = lambda: json.loads(self.run_program(*arguments).stdout)["trace"]
        self.assertTrue(origin()["synthetic"])
        for folder, said in (("traces", "traces/"), ("elsewhere", "FARPAGE_TRACES")):
            os.makedirs(self.folder / folder / "mooncake")
            write_trace(self.folder / folder / "mooncake" / "conversation_trace.jsonl", [[1], [2]])
            if folder == "elsewhere":
                self.environment["FARPAGE_TRACES"] = str(self.folder / folder)
            self.assertFalse(origin()["synthetic"])
            self.assertIn(said, origin()["origin"])

    def test_a_node_that_is_used_twice(self):
        node = self.start_node("--page-bytes", "4096")
        requests = [[1, 2, 3], [1, 2, 4]]
        trace = self.folder / "trace.jsonl"
        write_trace(trace, requests)
        for _ in range(2):
            result = self.run_program("replay", trace, "--page-bytes", "4096", "--node", node.socket, "--json", "-")
            self.assert_counts(json.loads(result.stdout), requests, 0)

    def test_traces_that_cannot_be_replayed(self):
        path = self.folder / "bad.jsonl"
        good = '{"timestamp": 5, "input_length": 1, "output_length": 1, "hash_ids": [1]}\n'
        for text, said in (
            ("", "empty"),
            (good + "{\n", f"{path}:2: this is no JSON object"),
            (good + good.replace("5", "4"), f"{path}:2: timestamp 4 comes after 5"),
            (good.replace("[1]", "[1.5]"), f"{path}:1: an id in hash_ids is 1.5"),
            (good + "x" * (2 << 24), f"{path}:2: the line is longer"),
        ):
            path.write_text(text)
            self.assert_fails(self.run_program("replay", path), 1, said)
        self.assert_fails(self.run_program("replay", self.folder / "none.jsonl"), 1, "none.jsonl")
        self.assert_nothing_left()

    def test_tokens_of_a_block_are_asked_for_where_they_are_needed_alone(self):
        trace = self.folder / "trace.jsonl"
        # Three blocks of 16 tokens, and not of Mooncake's 512.
        trace.write_text('{"input_length": 33, "hash_ids": [1, 2, 3]}\n')
        self.assert_fails(self.run_program("replay", trace, "--prefill-tokens-per-s", "10"), 1, "--block-tokens", "or leave it out")
        answer = self.replay_trace(trace, "--prefill-tokens-per-s", "10", "--block-tokens", "16")
        self.assertEqual(answer["requests"], 1)

    def test_results_that_cannot_be_written(self):
        arguments = ("replay", "generate", "--requests", 2, "--page-bytes", 4096, "--pool-bytes", "16MiB")
        for option, nowhere in (("--json", "/dev/full"), ("--report", "/dev/null/x")):
            result = self.run_program(*arguments, option, nowhere)
            self.assertEqual(result.returncode, 1)
            self.assertIn(nowhere, result.stderr)
            self.assertIn("wrong bytes", result.stdout)  # the table is there all the same
            self.assertNotIn("report.html", result.stdout)
        self.assert_nothing_left()


class ProductionTest(ProductionTrace, Case):
    backend = "shm"


if __name__ == "__main__":
    unittest.main()
