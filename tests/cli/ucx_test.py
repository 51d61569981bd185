"""The program over UCX, on this machine alone: right counts one-sidedly, and no path that only looks it."""

import unittest

from counts import Counts
from program import Case

OVER_UCX = ("--backend", "ucx", "--set")
POOL = ("--pool-bytes", "64MiB")


class UcxTest(Counts, Case):
    def setUp(self):
        super().setUp()
        self.untrusting = self.run_program("node", "--listen", self.folder / "n.sock", "--state", self.folder / "n.state", *POOL,
                                           "--backend", "ucx")

    def test_counts_over_shared_memory_are_those_of_shm(self):
        for transports in ("posix", "sysv"):
            for local_pages in (0, 100):
                over_shm = self.counts(*POOL, "--backend", "shm", local_pages=local_pages)
                answer = self.replay(*POOL, *OVER_UCX, f"ucx.transports={transports}", local_pages=local_pages)
                self.assertIn(f"{transports}/memory", answer["path"])
                self.assertGreater(over_shm["verdicts"]["ready"], 1_000)
                self.assertEqual({key: answer[key] for key in over_shm}, over_shm)
        self.assert_nothing_left()

    def test_a_path_that_the_peer_s_cpu_answers_is_refused_by_its_name(self):
        over_tcp = ("replay", "generate", "--requests", 20, "--page-bytes", 4096, *POOL, *OVER_UCX, "ucx.transports=tcp")
        self.assert_fails(self.run_program(*over_tcp), 1, "UCX has only tcp/", "--allow-emulated")

    def test_and_taken_where_it_is_allowed(self):
        answer = self.replay(*POOL, *OVER_UCX, "ucx.transports=tcp", "--allow-emulated", requests=20)
        self.assertIn("emulated", answer["path"])

    def test_a_node_serves_none_whom_it_does_not_trust(self):
        self.assert_fails(self.untrusting, 1, "ucx.trusted_clients = true")


if __name__ == "__main__":
    unittest.main()
