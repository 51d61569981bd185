"""The whole Mooncake conversation trace, whose shares are known, through a backend."""

import json
import os

TRACE = os.path.join(os.environ.get("FARPAGE_TRACES", "traces"), "mooncake", "conversation_trace.jsonl")


def require_trace(case):
    """Skips a test without traces, which are no part of the project, even where CI is set."""
    if not os.path.exists(TRACE):
        why = "traces: FARPAGE_TRACES names no folder with Mooncake's trace: scripts/fetch-traces brings it"
        print(f"skipped: {why}", flush=True)
        case.skipTest(why)


class ProductionTrace:
    """For a Case that names its backend."""

    backend = None

    def test_the_whole_production_trace(self):
        require_trace(self)
        for local_pages, key, expected in ((0, "ready", 0.3664), (10_000, "local", 0.2112)):
            result = self.run_program("replay", TRACE, "--format", "mooncake", "--backend", self.backend,
                                      "--page-bytes", "64", "--pool-bytes", "32MiB", "--local-pages", local_pages,
                                      "--json", "-")
            self.assertEqual(result.returncode, 0, result.stderr)
            answer = json.loads(result.stdout)
            self.assertEqual((answer["requests"], answer["pages_demanded"]), (12_031, 288_500))
            self.assertEqual((answer["wrong_bytes"], answer["local_wrong_bytes"]), (0, 0))
            self.assertEqual(answer["deadlines"]["missed"], 0)
            counts = {"ready": answer["verdicts"]["ready"], "local": answer["local_hits"]}
            self.assertEqual(round(counts[key] / answer["pages_demanded"], 4), expected)
