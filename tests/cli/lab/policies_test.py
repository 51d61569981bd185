"""Replays without a node: pages that policies keep, savings of prefetchers, KV-Hierarchy-Lab."""

import csv
import io
import json
import math
import random
import struct
import sys
import unittest
from unittest import mock

from program import SOURCE, Case
from replay_traces import write_trace

sys.path.insert(0, str(SOURCE / "python"))
from farpage.access_trace import Writer  # noqa: E402


def lru_hits(requests, budget):
    resident, hits = [], 0
    for ids in requests:
        for page in ids:
            if page in resident:
                resident.remove(page)
                hits += 1
            resident.append(page)
            del resident[:max(0, len(resident) - budget)]
    return hits


def command_for(arguments):
    """The command that takes these: what asks for prefetchers is in virtual time."""
    return "prefetch" if "--prefetch" in arguments else "policies"


class PoliciesTest(Case):
    def setUp(self):
        super().setUp()
        draw = random.Random(7)
        self.requests = [[draw.randrange(60) for _ in range(draw.randrange(20))] for _ in range(200)]
        self.trace = self.folder / "trace.jsonl"
        write_trace(self.trace, self.requests)

    def replay(self, *arguments):
        result = self.run_program(command_for(arguments), self.trace, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def refused(self, *arguments):
        result = self.run_program(command_for(arguments), self.trace, *arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        return result.stderr

    def test_hits_are_those_of_a_model(self):
        answer = json.loads(self.replay("--policy", "lru,belady", "--budget", "0,5,20,1000", "--json", "-"))
        hits = {(run["policy"], run["budget_pages"]): run["hits"] for run in answer["runs"]}
        for budget in (0, 5, 20, 1000):
            self.assertEqual(hits["lru", budget], lru_hits(self.requests, budget) if budget else 0)
            self.assertGreaterEqual(hits["belady", budget], hits["lru", budget])
        self.assertGreater(hits["belady", 20], hits["lru", 20])
        self.assertEqual(answer["pages"], len({page for ids in self.requests for page in ids}))

    def test_a_table_for_a_person_and_one_for_a_spreadsheet(self):
        table = self.replay("--policy", "windowed_recency:window=8,s3fifo", "--budget", "10", "--csv", "runs.csv",
                            "--report", "out/a")
        for text in ("windowed_recency:window=8", "s3fifo", "hit rate", "endless memory", "out/a/report.html"):
            self.assertIn(text, table)
        self.assertIn("<svg", (self.folder / "out/a/report.html").read_text())
        self.assertEqual(len(json.loads((self.folder / "out/a/report.json").read_text())["runs"]), 2)
        rows = list(csv.DictReader(io.StringIO((self.folder / "runs.csv").read_text())))
        self.assertEqual([row["policy"] for row in rows], ["windowed_recency:window=8", "s3fifo"])
        self.assertEqual(int(rows[0]["accesses"]), sum(map(len, self.requests)))

    def test_in_virtual_time(self):
        # Three pages in a loop, of which one is near: each step waits for its page, unless the
        # prefetcher knows which comes next.
        write_trace(self.trace, [[step % 3] for step in range(30)])
        arguments = ("--policy", "lru", "--budget", "1", "--prefetch", "none,oracle,markov", "--prefetch-pages", "1", "--page-bytes", "1000000",
                     "--compute-us", "1000", "--tier", "latency_us=5:gbps=80")
        answer = json.loads(self.replay(*arguments, "--json", "-"))
        runs = {run["prefetch"]: run for run in answer["runs"]}
        # A million bytes take 100 µs, and 5 more until they are there.
        self.assertAlmostEqual(runs["none"]["stall_s"], 27 * 105e-6)
        self.assertEqual((runs["none"]["hits"], runs["none"]["demand_fetches"], runs["none"]["first_accesses"]), (0, 27, 3))
        self.assertEqual((runs["oracle"]["stall_s"], runs["oracle"]["hits"], runs["oracle"]["normalised_stall"]), (0, 27, 1))
        # No step has made page 2 yet when it is next, so 0 is fetched instead, and evicted again.
        self.assertEqual((runs["oracle"]["prefetches"], runs["oracle"]["useful"], runs["oracle"]["timeliness"]), (28, 27, 1))
        self.assertGreater(runs["markov"]["hits"], 20)
        self.assertIsNone(runs["markov"]["lift"])
        table = self.replay(*arguments, "--csv", "timed.csv", "--report", "timed")
        for text in ("virtual", "oracle", "5 µs, 80 Gb/s, endless", "timed/report.html"):
            self.assertIn(text, table)
        self.assertIn("<svg", (self.folder / "timed/report.html").read_text())
        rows = list(csv.DictReader(io.StringIO((self.folder / "timed.csv").read_text())))
        self.assertEqual([row["prefetch"] for row in rows], ["none", "oracle", "markov"])
        self.assertEqual(rows[2]["hits"], str(runs["markov"]["hits"]))

    def test_placement_in_tiers(self):
        # One page is near and two are in the first tier. Of five in a loop, the next are those used
        # longest ago.
        write_trace(self.trace, [[step % 5] for step in range(50)])
        arguments = ("--policy", "lru", "--budget", "1", "--prefetch", "none", "--tier", "pages=2", "--tier", "gbps=1:bits=4")
        rows = list(csv.DictReader(io.StringIO(self.replay(*arguments, "--placement", "lru,belady", "--csv", "-"))))
        self.assertEqual([row["placement"] for row in rows], ["lru", "belady"])
        self.assertLess(float(rows[1]["imprecise_share"]), float(rows[0]["imprecise_share"]))
        self.assertGreater(float(rows[0]["imprecise_share"]), 0.8)
        table = self.replay(*arguments, "--report", "placed")
        for text in ("placement", "4 of 16 bits"):
            self.assertIn(text, table)
        self.assertIn("4 of 16 bits", (self.folder / "placed/report.html").read_text())
        report = json.loads((self.folder / "placed/report.json").read_text())
        self.assertEqual([tier["bits"] for tier in report["tiers"]], [16, 4])

    def test_sessions_of_agents(self):
        request = lambda time_s, ids: {"t": time_s, "in": 1, "out": 1, "hash_ids": ids}
        sessions = self.folder / "sessions"
        sessions.mkdir()
        for name, requests in (("a", [request(0, [1, 2]), request(9.5, [1, 2, 3])]), ("b", [request(4, [1, 2])])):
            (sessions / f"{name}.json").write_text(json.dumps({"block_size": 64, "requests": requests}))
        result = self.run_program("policies", sessions, "--format", "agent", "--policy", "lru", "--budget", "2,4", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        # Between a's two requests come b's two pages, which are not a's.
        self.assertEqual([run["hits"] for run in json.loads(result.stdout)["runs"]], [0, 2])
        # A session a line is the same, from a pipe too, which is read once.
        lines = "".join((sessions / f"{name}.json").read_text() + "\n" for name in "ab")
        result = self.run_program("policies", "/dev/stdin", "--format", "agent", "--policy", "lru", "--budget", "2,4", "--json", "-", input=lines)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([run["hits"] for run in json.loads(result.stdout)["runs"]], [0, 2])
        # Requests have a turn, by which this policy goes; a request without a session has none.
        by_turn = ("--policy", "workload_aware", "--budget", "4", "--json", "-")
        result = self.run_program("policies", sessions, "--format", "agent", *by_turn)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([run["hits"] for run in json.loads(result.stdout)["runs"]], [2])
        self.assert_fails(self.run_program("policies", self.trace, *by_turn), 2, "needs the column 'category'")
        self.assertIn("name a session", self.run_program("policies", "--format", "agent", "--policy", "lru", "--budget", "2").stderr)

    def test_arrivals_and_lengths_alone(self):
        trace = self.folder / "azure.csv"
        trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,1024,1\n2023-11-16 18:17:04.03,513,1\n")
        result = self.run_program("policies", trace, "--format", "azure", "--policy", "lru,belady", "--budget", "10", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["runs"][0]["accesses"], answer["pages"]), (4, 4))
        self.assertEqual([run["hits"] for run in answer["runs"]], [0, 0])
        trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,1024\n")
        self.assert_fails(self.run_program("policies", trace, "--format", "azure", "--policy", "lru", "--budget", "10"), 1, "azure.csv:2")
        self.assertIn("name a file", self.run_program("policies", "--format", "azure", "--policy", "lru", "--budget", "2").stderr)

    def write_accesses(self, columns, accesses):
        path = self.folder / "accesses.trace"
        with Writer(path, "recorded", synthetic=False, heads=4, columns=columns) as trace:
            for step, page, values in accesses:
                trace.add(step, page, head=page % 4, **values)
        return path

    def write_masses(self, masses):
        """Be they such as no writer takes."""
        with mock.patch.object(Writer, "_packed", lambda writer, column, value: struct.pack("<f", value)):
            return self.write_accesses(["mass"], [(step, step % 3, {"mass": mass}) for step, mass in enumerate(masses)])

    def replay_accesses(self, path, *arguments):
        return self.run_program(command_for(arguments), path, "--format", "access", "--budget", "2", *arguments)

    def test_accesses_with_their_mass(self):
        path = self.write_accesses(["mass"], [(0, 0, {"mass": 0.2}), (0, 1, {"mass": 0.3}), (1, 0, {"mass": 0.2}),
                                              (2, 2, {"mass": 0}), (3, 0, {"mass": 0}), (4, 3, {"mass": 0.1}), (5, 0, {"mass": 0})])
        result = self.replay_accesses(path, "--policy", "h2o:recent=0,fifo,raas,lazy,importance,attention,stability,belady", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["trace"], answer["synthetic"], answer["pages"], answer["left_out"]), ("recorded", False, 4, []))
        hits = {run["policy"]: run["hits"] for run in answer["runs"]}
        self.assertEqual((hits["h2o:recent=0"], hits["fifo"], hits["belady"]), (3, 2, 3))

    def write_heads(self, layers, heads, steps):
        """In each step head 0 reads one page again, and head 3 ten.

        Heads 0, 1 and 2 also read pages that never come back, and without mass.
        """
        path = self.folder / "heads.trace"
        with Writer(path, "heads", synthetic=True, layers=layers, heads=heads, columns=["mass"]) as trace:
            for step in range(steps):
                trace.add(step, "steady", head=0, mass=0.9)
                for head in (0, 1, 2):
                    trace.add(step, (step, head), head=head, mass=0)
                for page in range(10):
                    trace.add(step, page, head=3, mass=0.09)
        return path

    def hits_of_heads(self, path, policy):
        result = self.run_program("policies", path, "--format", "access", "--budget", "16", "--policy", policy, "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        return {run["policy"]: run["hits"] for run in json.loads(result.stdout)["runs"]}

    def test_shares_of_the_budget_by_layers_and_heads(self):
        steps = 40
        hits = self.hits_of_heads(self.write_heads(2, 2, steps), "even/lru,reasonalloc/lru,reasonalloc:window=16/h2o:recent=0.3,lru")
        # Four pages a head: of the ten none is there when it comes back.
        self.assertEqual(hits["even/lru"], steps - 1)
        # After eight steps the second layer has 12 pages, as √10 : √1 is 12 : 4; head 3 has ten.
        self.assertGreaterEqual(hits["reasonalloc/lru"], steps - 1 + 10 * (steps - 9))
        self.assertIn("reasonalloc:window=16/h2o:recent=0.3", hits)
        # Of one layer with four heads head 3 has nine: twice the mean of √1, 0, 0 and √10, of 16.
        hits = self.hits_of_heads(self.write_heads(1, 4, steps), "even/lru,reasonalloc/lru,reasonalloc:floor=1/lru")
        self.assertLess(hits["reasonalloc/lru"], steps - 1 + 10)
        self.assertEqual(hits["reasonalloc:floor=1/lru"], hits["even/lru"])

    def test_shares_in_virtual_time(self):
        arguments = ("prefetch", self.write_heads(2, 2, 40), "--format", "access", "--budget", "16", "--policy", "even/lru,reasonalloc/lru",
                     "--prefetch", "none", "--json", "-")
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        even, by_need = (run["stall_s"] for run in json.loads(result.stdout)["runs"])
        self.assertLess(by_need, even / 2)

    def test_more_accesses_than_a_block_has(self):
        requests = [page for ids in self.requests for page in ids] * 40
        path = self.write_accesses([], [(step, page, {}) for step, page in enumerate(requests)])
        result = self.run_program("policies", path, "--format", "access", "--budget", "20", "--policy", "lru,belady", "--json", "-")
        runs = json.loads(result.stdout)["runs"]
        self.assertEqual((runs[0]["accesses"], runs[0]["hits"]), (len(requests), lru_hits([requests], 20)))
        self.assertGreater(runs[1]["hits"], runs[0]["hits"])

    def test_accesses_that_cannot_be_replayed_are_refused(self):
        path = self.write_accesses(["score"], [(0, 0, {"score": 1})])
        result = self.replay_accesses(path, "--policy", "lru,h2o")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("h2o needs the column 'mass'", result.stderr)
        self.assertIn("reasonalloc needs the column 'mass'", self.replay_accesses(path, "--policy", "reasonalloc/lru").stderr)
        path.write_bytes(path.read_bytes()[:-1])
        self.assertIn("cut off", self.replay_accesses(path, "--policy", "lru").stderr)
        self.assertIn("no access trace", self.replay_accesses(self.trace, "--policy", "lru").stderr)
        self.assertIn("leave --requests out", self.replay_accesses(path, "--policy", "lru", "--requests", "5").stderr)
        self.assertIn("`farpage-lab policies`", self.run_program("replay", path, "--format", "access").stderr)
        nameless = self.run_program("policies", "--format", "access", "--policy", "lru", "--budget", "2")
        self.assertIn("name a file", nameless.stderr)

    def test_policies_of_heads_that_would_take_all_memory_are_refused_at_once(self):
        path = self.folder / "heads.trace"
        with Writer(path, "heads", synthetic=True, layers=64, heads=1024, columns=[]) as trace:
            for head in range(65536):
                trace.add(0, head, head=head)
        self.assert_fails(self.replay_accesses(path, "--policy", "lru,even/milestone"), 2, "even/milestone: 65536 heads", "bytes in all",
                          "record pages by groups of heads")

    def test_a_trace_of_which_no_access_is_left_is_refused(self):
        empty = self.write_accesses(["mass"], [])
        self.assert_fails(self.replay_accesses(empty, "--policy", "lru"), 1, "no accesses to replay")
        damaged = self.write_masses([math.nan] * 20)
        for prefetch in ((), ("--prefetch", "none")):
            self.assert_fails(self.replay_accesses(damaged, "--policy", "lru", *prefetch), 1, "no accesses to replay",
                              "left out: 20 accesses, whose mass is no number from 0 to 1")

    def test_what_was_left_out_is_told_whatever_is_written(self):
        path = self.write_masses([7] * 5 + [0.1] * 15)
        for output in (("--csv", "-"), ("--json", "-"), ("--csv", "-", "--prefetch", "none"), ()):
            result = self.replay_accesses(path, "--policy", "lru", *output)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("farpage-lab: left out: 5 accesses, whose mass is no number from 0 to 1\n", result.stderr)
        self.assertNotIn("left out", self.run_program("policies", self.trace, "--policy", "lru", "--budget", "2", "--csv", "-").stderr)

    def test_what_cannot_be_run_is_refused_with_what_can(self):
        self.assertIn("both write to standard output", self.refused("--policy", "lru", "--budget", "5", "--json", "-", "--csv", "-"))
        self.assertIn("did you mean 'lru'?", self.refused("--policy", "lruu", "--budget", "5"))
        self.assertIn("has no parameters", self.refused("--policy", "lru:k=2", "--budget", "5"))
        self.assertIn("did you mean 'reasonalloc'?", self.refused("--policy", "reasonaloc/lru", "--budget", "5"))
        self.assertIn("did you mean 'lru'?", self.refused("--policy", "even/lruu", "--budget", "5"))
        self.assertIn("no whole number", self.refused("--policy", "lru", "--budget", "-5"))
        self.refused("--policy", "lru")
        self.refused("--budget", "5")
        self.refused("--policy", "lru", "--budget", "5", "--local-pages", "3")
        self.refused("--policy", "lru", "--budget", "5", "--hedge")
        self.refused("--policy", "lru", "--budget", "5", "--deadline-ms", "3")
        timed = ("--policy", "lru", "--budget", "5", "--prefetch")
        self.assertIn("did you mean 'markov'?", self.refused(*timed, "markow"))
        self.assertIn("the last tier", self.refused(*timed, "none", "--tier", "pages=5"))
        self.assertIn("'gbps=0'", self.refused(*timed, "none", "--tier", "gbps=0"))
        self.assertIn("'bits=17'", self.refused(*timed, "none", "--tier", "bits=17"))
        self.assertIn("more precise", self.refused(*timed, "none", "--tier", "pages=5:bits=4", "--tier", "bits=8"))
        placed = (*timed, "none", "--tier", "pages=5", "--tier", "gbps=1", "--placement")
        self.assertIn("did you mean 'lru'?", self.refused(*placed, "lruu"))
        self.assertIn("give --tier twice", self.refused(*timed, "none", "--tier", "gbps=1", "--placement", "lru"))
        self.refused(*timed, "none", "--placement", "lru")
        self.refused("--prefetch", "none")
        self.refused("--policy", "lru", "--budget", "5", "--compute-us", "5")
        self.refused(*timed, "none", "--compute-us", "-1")
        self.assertIn("--page-bytes", self.refused("--policy", "lru", "--budget", "5", "--page-bytes", "5"))
        self.assertIn("--list", self.refused("--csv", "runs.csv"))
        self.assert_fails(self.run_program("kvhl"), 2, "--input is required")
        for option in ("--json", "--report", "--policy"):
            self.assert_fails(self.run_program("kvhl", "--input", "folder", option, "out"), 2, option)

    def test_which_there_are(self):
        policies = self.run_program("policies", "--list")
        self.assertEqual((policies.returncode, policies.stderr), (0, ""))
        for text in ("Policies:", "  lru: ", "  windowed_recency: ", "    window=", "Allocations", "  reasonalloc: "):
            self.assertIn(text, policies.stdout)
        for command in ("prefetch", "live"):
            listed = self.run_program(command, "--list").stdout
            self.assertTrue(listed.startswith(policies.stdout))
            self.assertIn("Prefetchers:\n", listed)
            self.assertIn("  none: ", listed)

    def kvhl(self, *arguments):
        result = self.run_program("kvhl", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_the_runs_of_another_simulator(self):
        folder = self.folder / "lab"
        folder.mkdir()
        for quantisation, size in (("fp16", 4000), ("fp8", 2000), ("int4", 1000)):
            rows = [f"{page},0,0,{16 * page},{16 * page + 16},{size}" for page in range(40)]
            (folder / f"loop.{quantisation}.pages.csv").write_text(
                "page_id,layer,head_group,token_start,token_end,size_bytes\n" + "\n".join(rows) + "\n")
        accesses = "".join(f"{step},{step % 40}\n" for step in range(200))
        (folder / "loop.trace.csv").write_text("step,page_id\n" + accesses)
        rows = list(csv.DictReader(io.StringIO(self.kvhl("--input", folder))))
        self.assertEqual(len(rows), 5 * 6)
        by_run = {(row["scenario"], row["policy"]): row for row in rows}
        # A loop over 40 pages, and 64,000 bytes hold 16: LRU never hits, and knows 40 pages after
        # one round.
        self.assertEqual(by_run["small_fp16_no_prefetch", "lru"]["miss_count"], "200")
        self.assertEqual(by_run["small_fp16_no_prefetch", "lru"]["overall_hit_rate"], "0.0")
        self.assertEqual(by_run["base_fp8_prefetch", "lru"]["miss_count"], "40")
        self.assertGreater(int(by_run["small_fp16_prefetch", "predictive"]["useful_prefetches"]), 0)
        self.assertEqual(by_run["small_fp16_no_prefetch", "predictive"]["prefetch_requests"], "0")


if __name__ == "__main__":
    unittest.main()
