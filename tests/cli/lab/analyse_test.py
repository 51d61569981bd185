"""farpage-lab analyse: what it prints of traces of every format, and what it refuses."""

import gzip
import json
import sys
import unittest

from production import TRACE, require_trace
from program import SOURCE, Case
from replay_traces import write_trace

sys.path.insert(0, str(SOURCE / "python"))
from farpage.access_trace import Writer  # noqa: E402


class AnalyseTest(Case):
    def analyse(self, *arguments):
        result = self.run_program("analyse", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_a_trace_of_requests(self):
        trace = self.folder / "trace.jsonl"
        write_trace(trace, [[0, 1 + step % 3] for step in range(60)])
        answer = json.loads(self.analyse(trace, "--budget", "4", "--json", "-"))
        self.assertEqual((answer["pages"], answer["steps"], answer["accesses"], answer["synthetic"]), (4, 60, 120, False))
        self.assertAlmostEqual(answer["new"]["value"], 4 / 120)
        self.assertAlmostEqual(answer["persistent"]["value"], 59 / 120)
        self.assertEqual(answer["h1"]["recall_of_reentries"]["value"], 1)
        text = self.analyse(trace)
        for each in ("4 pages", "60 steps", "Nothing in this trace says that it is synthetic", "re-entered", "H1"):
            self.assertIn(each, text)

    def test_what_was_made_is_said_to_be(self):
        self.assertIn("This trace is synthetic", self.analyse("generate", "--requests", "50"))

    def test_accesses_and_arrivals(self):
        path = self.folder / "accesses.trace"
        with Writer(path, "recorded", synthetic=True, columns=[]) as trace:
            for step in range(20):
                trace.add(step, step % 2)
        answer = json.loads(self.analyse(path, "--format", "access", "--json", "-"))
        self.assertEqual((answer["steps"], answer["synthetic"]), (20, True))
        azure = self.folder / "azure.csv"
        azure.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,1024,1\n")
        self.assertIn("nothing comes back", self.analyse(azure, "--format", "azure"))

    def test_a_workload_of_kv_hierarchy_lab_s(self):
        path = self.folder / "w.trace.csv"
        path.write_text("step,page_id\n" + "".join(f"{step},{step % 3 + 40}\n" for step in range(30)))
        answer = json.loads(self.analyse(path, "--format", "kvhl", "--json", "-"))
        self.assertEqual((answer["pages"], answer["steps"], answer["synthetic"]), (3, 30, True))
        self.assert_fails(self.run_program("analyse", "--format", "kvhl"), 1, "name a file")
        self.assert_fails(self.run_program("replay", path, "--format", "kvhl"), 2, "farpage-lab policies")

    def decoded(self, name="decode.trace"):
        """Four heads with twenty pages each.

        Each head has one milestone, a page that all steps look at most.
        """
        path = self.folder / name
        with Writer(path, "made", synthetic=True, heads=4, columns=["mass", "score"]) as trace:
            for step in range(200):
                for head in range(4):
                    trace.add(step, (head, 0), head=head, mass=0.8, score=2)
                    trace.add(step, (head, 1 + (step * 7 + head) % 19), head=head, mass=0.2, score=1)
        return path

    def test_attention_importance_heads_and_labels(self):
        path = self.decoded()
        labels = self.folder / "labels.csv"
        # As they are first named: two a head in the first step.
        labels.write_text("page,label\n" + "".join(f"{2 * head},milestone\n" for head in range(4)) + "1,other\n")
        report = self.folder / "report"
        text = self.analyse(path, "--format", "access", "--labels", labels, "--report", report, "--budget", "20")
        answer = json.loads((report / "report.json").read_text())
        for name in ("h1", "h2", "h3", "h3_milestones", "b_h1", "b_h2", "b_h4"):
            self.assertIn(answer[name]["answer"], ("yes", "no", "open"), name)
            self.assertIn(answer[name]["verdict"], text)
        self.assertEqual(answer["h3_milestones"]["reuses_of_milestones"]["value"], 199)
        self.assertEqual(answer["h3_milestones"]["answer"], "yes")
        self.assertGreater(answer["h3_milestones"]["effect"]["low"], 1)
        self.assertEqual(answer["classes"]["persistent"], {"pages": 4, "uses": 800, "milestones": 4})
        self.assertEqual({(run["policy"], run["budget_pages"]) for run in answer["kept"]},
                         {(policy, budget) for policy in ("importance", "lru", "lfu", "belady") for budget in (5, 10, 20, 40)})
        html = (report / "report.html").read_text()
        for each in ("Hit rate against budget", "Reuse distance", "labelled milestones", "synthetic", "B-H4"):
            self.assertIn(each, html)
        self.assertNotIn("http", html.replace("http://www.w3.org/2000/svg", ""))
        self.assertIn(f"{report}/report.html", text)

    def test_labels_of_another_trace_are_refused(self):
        labels = self.folder / "labels.csv"
        labels.write_text("page,label\n0,milestone\n80,milestone\n")
        arguments = (self.decoded(), "--format", "access", "--labels", labels)
        self.assert_fails(self.run_program("analyse", *arguments), 1, "labels.csv:3: page 80: the trace has 80 pages, numbered from 0")

    def test_what_cannot_be_read_is_refused(self):
        trace = self.folder / "trace.jsonl"
        trace.write_text("{}\n")
        self.assert_fails(self.run_program("analyse", trace), 1, "trace.jsonl:1")
        self.assert_fails(self.run_program("analyse", self.folder / "none"), 1, "none")
        self.assert_fails(self.run_program("analyse", self.folder), 1, "read as --format mooncake", "agent")
        self.assert_fails(self.run_program("analyse", trace, "--format", "magic"), 2, "magic")
        self.assert_fails(self.run_program("analyse", trace, "--budget", "-1"), 2, "--budget")

    def test_what_is_there_in_a_trace_s_place_is_told(self):
        trace = self.folder / "trace.jsonl"
        trace.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 132054902\n")
        result = self.run_program("analyse", trace)
        self.assert_fails(result, 1, "is a Git LFS pointer, and not the file of 132054902 bytes", "git lfs pull")
        self.assertNotIn("read as", result.stderr)
        self.assert_fails(self.run_program("analyse", trace, "--format", "access"), 1, "is a Git LFS pointer")

    def test_a_packed_trace_with_nothing_but_ids(self):
        trace = self.folder / "trace.jsonl.gz"
        requests = [{"hash_ids": [0, f"{1 + step % 3:x}"]} for step in range(60)]
        trace.write_bytes(b"".join(gzip.compress((json.dumps(each) + "\n").encode()) for each in requests))
        plain = json.loads(self.analyse(trace, "--json", "-"))
        self.assertEqual((plain["pages"], plain["steps"], plain["accesses"]), (4, 60, 120))

    def test_mooncake_s_conversations(self):
        require_trace(self)
        answer = json.loads(self.analyse(TRACE, "--json", "-"))
        self.assertEqual((answer["pages"], answer["accesses"], answer["steps"]), (182_790, 288_500, 12_031))
        # An endless memory hits 0.366 of the accesses: all that are not new.
        self.assertAlmostEqual(1 - answer["new"]["value"], 0.366, places=3)


if __name__ == "__main__":
    unittest.main()
