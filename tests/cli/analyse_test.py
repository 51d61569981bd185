"""farpage analyse: what it prints of traces of every format, and what it refuses."""

import json
import sys
import unittest

from production import TRACE, require_trace
from program import SOURCE, Case
from replay_traces import write_trace

sys.path.insert(0, str(SOURCE / "bench"))
from access_trace import Writer  # noqa: E402


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
        for each in ("4 pages", "60 steps", "recorded", "re-entered", "H1"):
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

    def test_what_cannot_be_read_is_refused(self):
        trace = self.folder / "trace.jsonl"
        trace.write_text("{}\n")
        self.assert_fails(self.run_program("analyse", trace), 1, "trace.jsonl:1")
        self.assert_fails(self.run_program("analyse", self.folder / "none"), 1, "none")
        self.assert_fails(self.run_program("analyse", trace, "--format", "magic"), 2, "magic")
        self.assert_fails(self.run_program("analyse", trace, "--budget", "-1"), 2, "--budget")

    def test_mooncake_s_conversations(self):
        require_trace(self)
        answer = json.loads(self.analyse(TRACE, "--json", "-"))
        self.assertEqual((answer["pages"], answer["accesses"], answer["steps"]), (182_790, 288_500, 12_031))
        # An endless memory hits 0.366 of the accesses: all that are not new.
        self.assertAlmostEqual(1 - answer["new"]["value"], 0.366, places=3)


if __name__ == "__main__":
    unittest.main()
