"""Real processes under attack: memory nodes and an etcd, in network namespaces as hosts."""

import json
import os
import shutil
import signal
import subprocess
import unittest

from namespaces import require_namespaces
from program import LAB, Case, processes_naming, require_root, skip_or_fail, wait_until

# A fetch that ended late counts as missed unless its thread, or the watchdog, waited as long for a
# processor: this machine's load is out of it.
FINDINGS = ("wrong_bytes", "went_back", "late_landings", "missed_deadlines", "lost_acknowledged_puts", "unfinished")
OF_NETWORK = ("link_down", "parted", "etcd_parted")
TIMEOUT_S = 250


class ProcessesTest(Case):
    def setUp(self):
        super().setUp()
        if shutil.which("etcd") is None:
            skip_or_fail(self, "there is no etcd: apt-get install etcd-server")

    def attack(self, *arguments):
        result = self.run_program("chaos", "--processes", "--json", "-", *arguments, timeout=TIMEOUT_S)
        return result, json.loads(result.stdout) if result.stdout else None

    def need_network(self):
        require_namespaces(self)

    def assert_nothing_found(self, result, answer):
        self.assertIsNotNone(answer, result.stderr)
        self.assertEqual({finding: answer[finding] for finding in FINDINGS}, dict.fromkeys(FINDINGS, 0), result.stdout)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(answer["pages_ready"], 1000)
        self.assertGreater(answer["puts_acknowledged"], 100)
        self.assertGreater(answer["removes_acknowledged"], 0)
        self.assertGreater(answer["pages_kept"], 0)
        self.assert_nothing_left()

    def test_nothing_is_found_over_tcp_and_etcd_comes_back(self):
        self.need_network()
        result, answer = self.attack("--disturbances", 10, "--seed", 4, "--outage-s", 4)
        self.assert_nothing_found(result, answer)
        # Besides the plan's, the loss that is measured, and the outage.
        self.assertEqual(answer["disturbances"], 12)
        self.assertEqual(answer["killed_to_all_served"]["samples"], 1)
        self.assertGreater(answer["outage_s"], 3.9)
        self.assertGreater(answer["without_view_max_ms"], 1000)  # a lease lasts half a second
        self.assertIsNotNone(answer["full_service_s"])

    def test_nothing_is_found_over_shm(self):
        result, answer = self.attack("--disturbances", 10, "--seed", 5, "--backend", "shm")
        self.assert_nothing_found(result, answer)
        self.assertEqual({kind: answer["injected"][kind] for kind in OF_NETWORK}, dict.fromkeys(OF_NETWORK, 0))

    def test_a_rule_switched_off_is_found(self):
        self.need_network()
        if "--without" not in self.run_program("chaos", "--help").stdout:
            return  # a program for users has all rules, always
        # A paused node's answers land when it goes on, and hedges have brought the pages long
        # before. On a busy machine an answer may land late before any node was paused.
        for seed in range(3, 9):
            result, answer = self.attack("--disturbances", 20, "--seed", seed, "--faults", "node_paused", "--without", "hold_until_ended")
            self.assertEqual(result.returncode, 1)
            self.assertGreater(answer["late_landings"], 0, result.stdout)
            self.assertTrue(any("a late landing in frame" in finding for finding in answer["findings"]), answer["findings"])
            self.assertIn(f"with seed {seed}; logs are in ", result.stderr)
            folder = result.stderr.rpartition("logs are in ")[2].strip()
            self.assertLess({"n0.log", "n1.log", "n2.log", "etcd.log"}, set(os.listdir(folder)))
            if any("node_paused for" in line for line in answer["history"]):
                return
        self.fail(answer["history"])

    def attack_gpu(self, seed, *arguments, destination="gpu", **settings):
        """Pages land in memory of the fake driver's GPU, whose streams go on out of step."""
        report = self.folder / "driver.json"
        self.environment.update({"LD_LIBRARY_PATH": os.path.dirname(os.environ["FARPAGE_FAKE_CUDA"]), "FARPAGE_FAKE_REPORT": str(report),
                                 "FARPAGE_FAKE_SEED": str(seed), **settings})
        result, answer = self.attack("--backend", "shm", "--clients", 2, "--destination", destination, "--seed", seed, *arguments)
        return result, answer, json.loads(report.read_text())

    def test_nothing_is_found_in_a_gpus_memory_and_nothing_leaks_in_its_driver(self):
        result, answer, driver = self.attack_gpu(6, "--disturbances", 10, FARPAGE_FAKE_DELAY_US="200")
        self.assertIsNotNone(answer, result.stderr)
        self.assertEqual({finding: answer[finding] for finding in FINDINGS}, dict.fromkeys(FINDINGS, 0), result.stdout)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(answer["destination"], "gpu")
        self.assertGreater(answer["pages_ready"], 500)
        copies = driver.pop("copies_to_devices")
        self.assertGreater(copies, 0)
        self.assertEqual(driver.pop("last_broken_rule"), "")
        self.assertEqual(driver, dict.fromkeys(driver, 0))
        self.assert_nothing_left()

    def test_a_byte_that_a_copy_to_the_gpu_spoils_is_found(self):
        result, answer, _ = self.attack_gpu(6, "--disturbances", 10, destination="gpu-unchecked", FARPAGE_FAKE_SPOIL_EVERY="300")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(answer["destination"], "gpu-unchecked")
        self.assertGreater(answer["wrong_bytes"], 0, result.stdout)

    @unittest.skipUnless(os.environ.get("FARPAGE_HAS_KERNELS") == "1", "this farpage was built without kernels for GPUs")
    def test_a_gpu_that_checks_what_copies_bring_lets_no_spoiled_byte_through(self):
        result, answer, _ = self.attack_gpu(6, "--disturbances", 10, FARPAGE_FAKE_SPOIL_EVERY="300")
        self.assertIsNotNone(answer, result.stderr)
        self.assertEqual({finding: answer[finding] for finding in FINDINGS}, dict.fromkeys(FINDINGS, 0), result.stdout)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(answer["pages_recompute_by_reason"]["corrupt"], 0)
        self.assertGreater(answer["pages_ready"], 500)

    @unittest.skipUnless(os.environ.get("FARPAGE_HAS_KERNELS") == "1", "this farpage was built without kernels for GPUs")
    def test_blocks_of_a_gpus_paged_memory_get_no_spoiled_byte(self):
        result, answer, driver = self.attack_gpu(6, "--disturbances", 10, destination="gpu-blocks", FARPAGE_FAKE_SPOIL_EVERY="300",
                                                 FARPAGE_FAKE_DELAY_US="200")
        self.assertIsNotNone(answer, result.stderr)
        self.assertEqual({finding: answer[finding] for finding in FINDINGS}, dict.fromkeys(FINDINGS, 0), result.stdout)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(answer["destination"], "gpu-blocks")
        self.assertGreater(answer["pages_recompute_by_reason"]["corrupt"], 0)
        self.assertGreater(answer["pages_ready"], 500)
        self.assertEqual((driver["device_ranges"], driver["modules"], driver["operations"], driver["broken_rules"]), (0, 0, 0, 0), driver)

    def test_no_driver_is_a_sentence(self):
        self.environment["LD_LIBRARY_PATH"] = str(self.folder)
        (self.folder / "libcuda.so.1").write_text("")
        self.assert_fails(self.run_program("chaos", "--processes", "--backend", "shm", "--destination", "gpu"), 1, "no CUDA driver")
        self.assert_nothing_left()

    def start_attack(self, *arguments):
        """One that lasts, with its nodes at work."""
        attack = self.start_program("chaos", "--processes", "--disturbances", 1000, "--backend", "shm", *arguments)
        self.line_saying(attack, "disturbances")
        self.assertGreaterEqual(len(processes_naming(str(self.temporary))), 3)
        return attack

    def test_a_crash_is_found(self):
        attack = self.start_attack("--faults", "etcd_paused")
        node, = processes_naming(f"{next(self.temporary.iterdir())}/n1.state")
        os.kill(node, signal.SIGQUIT)  # which neither the node nor a sanitizer handles
        output, errors = attack.communicate(timeout=60)
        self.assertEqual(attack.returncode, 1)
        self.assertIn("unfinished", output)
        self.assertIn("node n1 was killed by signal 3", output)
        self.assertIn("with seed 1; logs are in ", errors)

    def test_interrupted(self):
        attack = self.start_attack()
        attack.send_signal(signal.SIGINT)
        _, errors = attack.communicate(timeout=60)
        self.assertEqual(attack.returncode, 1)
        self.assertIn("interrupted", errors)
        self.assert_nothing_left()

    def test_killed(self):
        attack = self.start_attack()
        attack.kill()
        attack.wait()
        self.assertTrue(wait_until(lambda: not processes_naming(str(self.temporary))), processes_naming(str(self.temporary)))
        # Its folder goes with the next one.
        self.assertEqual(len(list(self.temporary.iterdir())), 1)
        self.assertEqual(self.run_program("hold", "--", "true").returncode, 0)
        self.assert_nothing_left()

    def test_bad_options(self):
        for arguments in (["--disturbances", "5"], ["--backend", "shm"], ["--destination", "gpu"],
                          ["--processes", "--destination", "moon"], ["--processes", "--seeds", "3"],
                          ["--processes", "--disturbances", "0"], ["--processes", "--replicas", "4"],
                          ["--processes", "--clients", "0"]):
            self.assertEqual(self.run_program("chaos", *arguments).returncode, 2, arguments)
        self.assert_fails(self.run_program("chaos", "--processes", "--faults", "torn"), 2, "no fault 'torn' of processes")
        self.assert_fails(self.run_program("chaos", "--processes", "--backend", "ucx"), 2, "tcp or shm")
        self.assert_fails(self.run_program("chaos", "--processes", "--backend", "shm", "--faults", "parted"), 2, "no network to cut")

    def test_what_is_missing_is_said(self):
        self.environment["PATH"] = str(self.folder)
        self.assert_fails(self.run_program("chaos", "--processes"), 1, "no etcd", "etcd-server")
        self.assert_nothing_left()

    def test_without_rights(self):
        require_root(self)
        for folder in (self.folder, self.temporary):
            folder.chmod(0o777)
        # Where anybody can run it.
        program = shutil.copy(LAB, self.folder)
        result = subprocess.run([program, "chaos", "--processes"], capture_output=True, text=True, env=self.environment, cwd=self.folder,
                                timeout=TIMEOUT_S, check=False, user=65534, group=65534, extra_groups=[])
        self.assert_fails(result, 1, "no network namespace", "root", "--backend shm")
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
