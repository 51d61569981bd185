"""Wrong options and configurations: exit 2, and a message that says what to do."""

import json
import unittest

from program import Case


class UsageTest(Case):
    def test_no_subcommand(self):
        self.assert_fails(self.run_program(), 2, "subcommand", "--help")

    def test_help_and_version(self):
        for arguments in (["--help"], ["node", "--help"], ["replay", "--help"], ["bench", "fetch", "--help"]):
            result = self.run_program(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("Usage", result.stdout)
        self.assertRegex(self.run_program("--version").stdout, r"^farpage \d+\.\d+\.\d+\n$")

    def test_unknown_option(self):
        self.assert_fails(self.run_program("replay", "--pages", "5"), 2, "'--pages'", "farpage-lab replay --help")
        for words in (["--pool-byts", "5"], ["--pool-byts=5"], ["--page-bytes", "5", "--pool-byts", "5"]):
            self.assert_fails(self.run_program("node", *words), 2,
                              "unknown option '--pool-byts'; did you mean '--pool-bytes'?", "farpage node --help")

    def test_unknown_command(self):
        self.assert_fails(self.run_program("stats"), 2, "unknown command 'stats'; did you mean 'status'?", "farpage --help")
        self.assert_fails(self.run_program("fleet", "upgrad"), 2, "'upgrad'; did you mean 'upgrade'?", "farpage fleet --help")
        self.assert_fails(self.run_program("stats", "--node", "/x"), 2, "unknown command 'stats'; did you mean 'status'?")
        self.assert_fails(self.run_program("fleet", "zzz", "--x"), 2, "unknown command 'zzz'")
        self.assert_fails(self.run_program("--x", "3"), 2, "unknown option '--x'")
        self.assert_fails(self.run_program("flush", "zzz", "yyy"), 2, "yyy", "farpage flush --help")

    def test_unknown_backend(self):
        self.assert_fails(self.run_program("bench", "fetch", "--backend", "carrier"), 2,
                          "unknown backend 'carrier'", "shm")

    def test_unknown_format(self):
        self.assert_fails(self.run_program("replay", "x", "--format", "csv"), 2, "mooncake")

    def test_sizes(self):
        for size in ("-1", "64QiB", "1.0001KiB", "99999999999TiB", ""):
            self.assert_fails(self.run_program("replay", "generate", f"--page-bytes={size}"), 2, "--page-bytes")
        self.assert_fails(self.run_program("replay", "generate", "--page-bytes", "8"), 2, "at least 64")

    def test_numbers(self):
        self.assert_fails(self.run_program("replay", "generate", "--local-pages", "many"), 2, "--local-pages")
        self.assert_fails(self.run_program("replay", "generate", "--requests=-5"), 2, "--requests")
        self.assert_fails(self.run_program("replay", "generate", "--deadline-ms", "0"), 2, "--deadline-ms")
        self.assert_fails(self.run_program("bench", "fetch", "--batch", "0"), 2, "batch")
        self.assert_fails(self.run_program("bench", "importance", "--blocks", "0"), 1, "blocks can be kept")
        self.assert_fails(self.run_program("bench", "index", "--pages", "0"), 2, "choose 1 to")
        self.assert_fails(self.run_program("bench", "index", "--pages", "9" * 18), 2, "choose 1 to")
        self.assert_fails(self.run_program("bench", "index", "--pages", "9" * 30), 2, "--pages")
        self.assert_fails(self.run_program("replay", "generate", "--requests", "9" * 18), 1, "choose at most")

    def test_a_pool_smaller_than_a_page(self):
        self.assert_fails(
            self.run_program("bench", "fetch", "--pool-bytes", "4KiB", "--page-bytes", "64KiB"), 2, "pool")
        self.assert_fails(
            self.run_program("node", "--pool-bytes", "4KiB", "--page-bytes", "64KiB"), 2, "pool_bytes")

    def test_an_own_pool_and_another_node(self):
        self.assert_fails(self.run_program("replay", "generate", "--node", "/x", "--pool-bytes", "1GiB"), 2, "--node")

    def test_unknown_keys_name_the_nearest(self):
        self.assert_fails(self.run_program("node", "--set", "node.pool_byte=1GiB"), 2,
                          "did you mean 'pool_bytes'?")
        self.assert_fails(self.run_program("replay", "generate", "--set", "client.stagin_bytes=5"), 2,
                          "did you mean 'staging_bytes'?")
        file = self.folder / "bad.toml"
        file.write_text("[node]\nlisten = \"x\"\nlease_m = 5\n")
        self.assert_fails(self.run_program("node", "--config", file), 2, f"{file}:3", "lease_ms")

    def test_values_of_the_wrong_type(self):
        self.assert_fails(self.run_program("node", "--set", "node.pool_bytes=true"), 2, "node.pool_bytes")
        self.assert_fails(self.run_program("node", "--set", "node.lease_ms=-4"), 2, "node.lease_ms")
        self.assert_fails(self.run_program("node", "--set", "nonsense"), 2, "table.key=value")
        self.assert_fails(self.run_program("node", "--config", self.folder / "none.toml"), 2, "none.toml")

    def test_no_node_there(self):
        path = self.folder / "none.sock"
        self.assert_fails(self.run_program("status", "--node", path), 1, str(path))
        self.assert_fails(
            self.run_program("replay", "generate", "--node", path, "--set", "client.connect_ms=200"), 1, str(path))

    def test_status(self):
        node = self.start_node()
        answer = self.status(node)
        self.assertEqual(answer["page_bytes"], 65536)
        self.assertEqual(answer["slots_free"], answer["slots"])
        self.assertIn("slots", self.run_program("status", "--node", node.socket).stdout)

    def test_bench_importance(self):
        result = self.run_program("bench", "importance", "--blocks", "4096", "--layers", "4", "--steps", "20", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual(answer["average"]["bytes"], 4 * 4096)
        for cost in (answer["average"], answer["window"]):
            self.assertGreater(cost["add_ns"], 0)
            self.assertGreater(cost["read_ns"], 0)

    def test_index_bench(self):
        result = self.run_program("bench", "index", "--pages", "200000", "--json", "-")
        answer = json.loads(result.stdout)
        self.assertGreater(answer["lookup_ns"], 0)
        self.assertLessEqual(answer["client_bytes_per_page"], 72)
        self.assertLessEqual(answer["node_bytes_per_slot"], 32)

    def test_recovery_bench(self):
        file = self.folder / "recovery.json"
        result = self.run_program("bench", "recovery", "--seed", "3", "--json", file)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(file.read_text(encoding="utf-8"))
        self.assertLess(answer["hedging"]["hedged_p999_ns"], answer["hedging"]["unhedged_p999_ns"])
        self.assertEqual((answer["death"]["late"], answer["death"]["wrong_bytes"]), (0, 0))
        self.assertIn("one of three nodes loses power", result.stdout)

    def test_scale_bench(self):
        file = self.folder / "scale.json"
        result = self.run_program("bench", "scale", "--nodes", "8", "--clients", "20", "--pages", "8000", "--lost", "2",
                                  "--keys", "8000", "--json", file)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(file.read_text(encoding="utf-8"))
        self.assertLess(answer["measured"]["placement"][0]["held"]["largest"], 1.02)
        self.assertEqual([repair["lost"] for repair in answer["extrapolated"]["repairs"]], [1, 2])
        self.assertIn("what follows for 8 nodes", result.stdout)
        self.assert_fails(self.run_program("bench", "scale", "--nodes", "2000"), 2, "--nodes is 2000: choose 8 to 1023")
        self.assert_fails(self.run_program("bench", "scale", "--etcd", "here"), 2, "'here' is not http://HOST:PORT")

    def test_puts_in_place_are_those_of_one_node(self):
        fleet = self.run_program("bench", "put", "--in-place", "--set", "cluster.nodes=a=tcp://127.0.0.1:1,b=tcp://127.0.0.1:2")
        self.assert_fails(fleet, 1, "--in-place reads one node's count: name that node with --node")
        self.assert_fails(self.run_program("bench", "put", "--in-place", "--nodes", "2"), 2, "--in-place excludes --nodes")

    def test_deadlines_bench(self):
        result = self.run_program("bench", "deadlines", "--page-bytes", "4KiB", "--batch", "8", "--pool-bytes", "1MiB",
                                  "--nodes", "3", "--replicas", "2", "--seconds", "0.3", "--json", "-")
        answer = json.loads(result.stdout)
        # Whether it holds is for a quiet machine to say.
        self.assertEqual(result.returncode, 0 if answer["holds"] else 1, result.stderr)
        self.assertEqual(answer["holds"], answer["lateness_max_us"] <= answer["watchdog_delay_max_us"])
        self.assertEqual(answer["fetches"], sum(answer["fetches_by_deadline_us"].values()))
        self.assertEqual(answer["verdicts"]["ready"] + answer["verdicts"]["recompute"], 8 * answer["fetches"])
        self.assertEqual(answer["wrong_bytes"], 0)
        self.assert_fails(self.run_program("bench", "deadlines", "--batch", "0"), 2, "a fetch of 0 pages")

    def test_push_bench(self):
        for verify in ("on", "off"):
            result = self.run_program("bench", "push", "--backend", "shm", "--page-bytes", "4KiB", "--batch", "10",
                                      "--group", "4", "--pool-bytes", "4MiB", "--seconds", "0.2", "--verify", verify,
                                      "--json", "-")
            self.assertEqual(result.returncode, 0, result.stderr)
            answer = json.loads(result.stdout)
            self.assertEqual((answer["backend"], answer["configuration"]["group"]), ("shm", 4))
            self.assertEqual(answer["configuration"]["verify"], verify == "on")
            self.assertEqual(answer["pages_stored"], 1024)
            self.assertGreater(answer["checked_pages"], 0)
            self.assertEqual(answer["wrong_bytes"], 0)
            verdicts = answer["verdicts"]
            self.assertGreater(verdicts["ready"], 0)
            self.assertEqual(verdicts["ready"] + verdicts["recompute"], 10 * answer["pushes"])
            self.assertEqual(verdicts["recompute"], sum(verdicts["recompute_by_reason"].values()))
            # Every page is there; `read_window` may be short on a machine that has much else to do.
            self.assertEqual(verdicts["recompute"], verdicts["recompute_by_reason"]["stalled"])
            self.assertGreaterEqual(answer["requests"], answer["pushes"])
            self.assertAlmostEqual(answer["bytes_per_s"] / answer["pages_per_s"], 4096, delta=1)
            self.assertEqual(answer["push_us"]["count"], answer["pushes"])
        self.assert_nothing_left()

    def test_push_bench_where_no_node_can_push(self):
        self.assert_fails(self.run_program("bench", "push", "--backend", "tcp", "--page-bytes", "4KiB", "--pool-bytes",
                                           "4MiB", "--seconds", "0.2"), 1, "cannot be pushed over tcp", "fetch them")

    def test_urgent_bench(self):
        for backend in ("shm", "tcp"):
            result = self.run_program("bench", "urgent", "--backend", backend, "--page-bytes", "4KiB", "--beside", "100",
                                      "--deadline-us", "10000000", "--others-deadline-us", "10000000", "--rounds", "21",
                                      "--json", "-")
            self.assertEqual(result.returncode, 0, result.stderr)
            answer = json.loads(result.stdout)
            self.assertEqual((answer["ready"], answer["others_ready"]), (21, 2100))
            self.assertEqual(answer["wrong_bytes"], 0)
            if backend == "shm":  # over tcp a machine that is busy for longer than L ends one
                self.assertEqual(answer["channels_ended"], 0)
            for key in ("alone_us", "behind_us", "others_us"):
                self.assertEqual(answer[key]["count"], 21)
                self.assertGreater(answer[key]["p50"], 0)
        self.assert_fails(self.run_program("bench", "urgent", "--beside", "0"), 2, "pages beside it")
        self.assert_nothing_left()

    def test_stale_bench(self):
        result = self.run_program("bench", "stale", "--backend", "shm", "--lanes", "2", "--seconds", "0.3", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual(answer["verdicts"]["ready"], 0)
        self.assertGreater(answer["verdicts"]["recompute_by_reason"]["stale"], 0)
        self.assertGreater(answer["callback_wait_us"]["count"], 0)
        self.assertGreater(answer["callback_wait_max_us"], 0)
        self.assert_fails(self.run_program("bench", "stale", "--lanes", "0"), 2, "lanes")
        self.assert_nothing_left()

    def test_turn_bench(self):
        result = self.run_program("bench", "turns", "--backend", "tcp", "--rounds", "2", "--seconds", "0.1", "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertGreaterEqual(answer["channels_ended"], 2)
        self.assertGreater(answer["ready"], 0)
        for key in ("steady_turn_us", "ending_turn_us"):
            self.assertGreater(answer[key]["count"], 0)
        self.assert_fails(self.run_program("bench", "turns", "--rounds", "0"), 2, "rounds")
        self.assert_nothing_left()

    def test_fetch_bench(self):
        for verify in ("on", "off"):
            result = self.run_program("bench", "fetch", "--backend", "shm", "--page-bytes", "4KiB", "--batch", "10",
                                      "--depth", "2", "--connections", "2", "--pool-bytes", "4MiB", "--seconds", "0.2",
                                      "--verify", verify, "--json", "-")
            self.assertEqual(result.returncode, 0, result.stderr)
            answer = json.loads(result.stdout)
            self.assertEqual(answer["wrong_bytes"], 0)
            self.assertEqual(answer["pages_stored"], 1024)
            self.assertGreater(answer["checked_pages"], 0)
            self.assertEqual(answer["verdicts"]["recompute"], 0)
            self.assertAlmostEqual(answer["bytes_per_s"] / answer["pages_per_s"], 4096, delta=1)
            self.assertGreater(answer["memcpy_bytes_per_s"], 0)
            latency = answer["fetch_us"]
            for key, beyond in (("p50", 0.5), ("p90", 0.1), ("p99", 0.01), ("p999", 0.001), ("p9999", 0.0001)):
                if latency["count"] * beyond > 11:
                    self.assertGreater(latency[key], 0)
                elif latency["count"] * beyond < 9:
                    self.assertIsNone(latency[key])
            for key in ("backend", "path", "version", "hardware", "configuration", "node_cpu_s", "client_cpu_s"):
                self.assertIn(key, answer)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
