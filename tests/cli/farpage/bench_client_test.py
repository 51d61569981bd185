"""farpage bench client: the client library, over a node of its own and over one that runs."""

import json
import unittest

from program import Case


class BenchClientTest(Case):
    def measured(self, *arguments):
        result = self.run_program("bench", "client", "--pages", 100, "--page-bytes", 4096, "--batch", 8, "--threads", 3,
                                  "--seconds", 0.05, *arguments, "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        figures = json.loads(result.stdout)
        self.assertEqual((figures["wrong_bytes"], figures["not_ready"], figures["leading_keys"]), (0, 0, 100))
        for name in ("first_page_ms", "one_pages_per_s", "many_pages_per_s", "driven_pages_per_s"):
            self.assertGreater(figures[name], 0, name)

    def test_over_a_node_inside_the_process(self):
        self.measured()

    def test_over_a_running_node(self):
        self.measured("--node", self.start_node(listen="tcp://127.0.0.1:0").address)

    def test_what_cannot_be_measured(self):
        self.assert_fails(self.run_program("bench", "client", "--pages", 3), 2, "at least 64 pages")
        self.assert_fails(self.run_program("bench", "client", "--set", "client.embedded=true"), 2, "client.embedded")


if __name__ == "__main__":
    unittest.main()
