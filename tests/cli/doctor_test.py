"""farpage doctor on this host: its output, its exit codes, and limits that are lowered for real."""

import ctypes
import json
import os
import resource
import socket
import subprocess
import unittest

from program import Case

PR_CAPBSET_DROP = 24
CAP_IPC_LOCK = 14
LEVELS = ("ok", "note", "warning", "problem")
FEW_DESCRIPTORS = 40  # the program itself needs some


def lower(limit, soft):
    return lambda: resource.setrlimit(limit, (soft, resource.getrlimit(limit)[1]))


class DoctorCase(Case):
    def doctor(self, *arguments, **options):
        result = self.run_program("doctor", *arguments, "--json", "-", **options)
        self.assertEqual(result.stderr, "")
        answer = json.loads(result.stdout)
        problems = [finding for subject in answer["findings"].values() for finding in subject.values()
                    if finding["level"] == "problem"]
        self.assertEqual(result.returncode, 1 if problems else 0)
        self.assertEqual(answer["can_run"], not problems)
        return answer["findings"]

    def assert_finding(self, finding, level, *texts):
        self.assertEqual(finding["level"], level, finding)
        for text in texts:
            self.assertIn(text, finding["text"] + " $ " + finding["command"])


class OutputTest(DoctorCase):
    def test_json(self):
        file = self.folder / "doctor.json"
        result = self.run_program("doctor", "--pool-bytes", "16MiB", "--json", file)
        self.assertEqual(result.returncode, 0, result.stdout)
        answer = json.loads(file.read_text())
        for key in ("version", "hardware", "backends", "configuration", "can_run", "findings"):
            self.assertIn(key, answer)
        self.assertEqual(answer["configuration"]["pool_bytes"], 16 << 20)
        for subject, findings in answer["findings"].items():
            self.assertIn(f"{subject}\n", result.stdout)
            for check, finding in findings.items():
                self.assertIn(finding["level"], LEVELS)
                self.assertRegex(result.stdout, rf"(?m)^  {finding['level']} +{check} ")
                self.assertIn(finding["text"], result.stdout)
                self.assertIn(finding["command"], result.stdout)
                if finding["level"] in ("warning", "problem"):
                    self.assertTrue(finding["command"], finding)

    def test_json_alone_on_standard_output(self):
        self.assertTrue(self.run_program("doctor", "--json", "-").stdout.startswith("{"))

    def test_what_can_run_stands_last(self):
        self.assertRegex(self.run_program("doctor", "--pool-bytes", "16MiB").stdout, r"\nthis host can run shm.*\n$")
        refused = self.run_program("doctor", "--pool-bytes", "64TiB", "--backend", "shm")
        self.assertEqual(refused.returncode, 1)
        self.assertTrue(refused.stdout.endswith("\nthis host cannot run shm\n"), refused.stdout)

    def test_commands_are_words_for_a_shell(self):
        config = self.folder / "it's a node.toml"
        config.write_text(f"[node]\nlisten = \"{self.folder}/a\"\npool_bytes = \"64TiB\"\n")
        for findings in (self.doctor("--config", config), self.doctor("--listen", f"{self.folder}/no thing/a")):
            for subject in findings.values():
                for finding in subject.values():
                    parsed = subprocess.run(["sh", "-n", "-c", finding["command"]], capture_output=True, text=True)
                    self.assertEqual((parsed.returncode, parsed.stderr), (0, ""), finding)


class UsageTest(DoctorCase):
    def test_wrong_usage(self):
        for arguments, text in (
            (["--backend", "carrier"], "verbs"),
            (["--pool-bytes", "many"], "--pool-bytes"),
            (["--listen", "tcp://localhost"], "no port"),
            (["--listen", "udp://localhost:1"], "scheme"),
            (["--config", self.folder / "none.toml"], "none.toml"),
        ):
            self.assert_fails(self.run_program("doctor", *arguments), 2, text)

    def test_a_file_that_cannot_be_written_costs_no_table(self):
        result = self.run_program("doctor", "--json", self.folder / "none/doctor.json")
        self.assertEqual(result.returncode, 2)
        self.assertIn("none/doctor.json", result.stderr)
        self.assertIn("this host can run", result.stdout)

    def test_a_backend_that_is_not_built(self):
        if "ucx" in self.run_program("node", "--help").stdout:
            self.skipTest("every backend is built")
        finding = self.doctor("--backend", "ucx")["backends"]["ucx"]
        self.assert_finding(finding, "problem", "not in this build")
        self.assert_finding(self.doctor("--backend", "shm")["backends"]["ucx"], "note", "not in this build")

    def test_the_way_to_a_gpu_is_told(self):
        gpu = self.doctor()["gpu"]
        self.assertIn(gpu["driver"]["level"], ("ok", "warning"))
        self.assert_finding(gpu["path"], "ok", "pinned host memory" if "works" in gpu["driver"]["text"] else "none")

    def test_shm_runs_here(self):
        self.assert_finding(self.doctor("--backend", "shm")["backends"]["shm"], "ok")


class ConfigTest(DoctorCase):
    def config(self, text):
        file = self.folder / "node.toml"
        file.write_text(text)
        return file

    def test_the_table_of_the_node_is_read(self):
        file = self.config(f"[security]\ntoken = \"x\"\n[node]\nlisten = \"{self.folder}/a\"\npool_bytes = \"64TiB\"\n")
        findings = self.doctor("--config", file)
        self.assert_finding(findings["memory"]["available"], "problem", "64 TiB", f"--config {file} --pool-bytes")
        self.assert_finding(findings["listen"]["unix path"], "ok")
        findings = self.doctor("--config", file, "--pool-bytes", "16MiB", "--listen", f"{self.folder}/none/a")
        self.assert_finding(findings["memory"]["available"], "ok", "16 MiB")
        self.assert_finding(findings["listen"]["unix path"], "problem")

    def test_the_pool_it_names_fits(self):
        listen = ("--listen", f"{self.folder}/a")
        found = self.doctor("--pool-bytes", "64TiB", *listen)["memory"]["available"]
        command = found["command"].split()
        self.assertEqual(command[:-1], ["farpage", "node", *listen, "--pool-bytes"])
        self.assert_finding(self.doctor("--pool-bytes", command[-1], *listen)["memory"]["available"], "ok")

    def test_an_unknown_key_of_it(self):
        file = self.config("[node]\npool_byte = 5\n")
        self.assert_fails(self.run_program("doctor", "--config", file), 2, "pool_bytes")

    def test_the_rdma_devices_are_read(self):
        node = f"[node]\nlisten = \"{self.folder}/a\"\npool_bytes = \"1MiB\"\n"
        file = self.config(f"{node}[rdma]\ndevices = \"none_0, none_1:2,none_3\"\n")
        findings = self.doctor("--config", file, "--backend", "verbs")
        self.assertIn("verbs with 3 devices", findings["limits"]["descriptors"]["text"])
        self.assertEqual(findings["backends"]["verbs"]["level"], "problem")
        for table, text in (("[rdma]\ndevice = \"\"\n", "devices"), ("[rdma]\nspin_us = 2000000\n", "rdma.spin_us"),
                            ("[ucx]\ntransport = \"\"\n", "transports")):
            self.assert_fails(self.run_program("doctor", "--config", self.config(node + table)), 2, text)

    def test_max_clients(self):
        file = self.config(f"[node]\nlisten = \"{self.folder}/a\"\npool_bytes = \"16MiB\"\nmax_clients = 100000\n")
        self.assert_finding(self.doctor("--config", file)["memory"]["vm.max_map_count"], "warning",
                            "vm.max_map_count=401024")


class LimitsTest(DoctorCase):
    def test_descriptors(self):
        arguments = ("--pool-bytes", "16MiB", "--backend", "tcp")
        for soft, level, text in ((5000, "ok", "4160"), (500, "warning", "109 clients fit"),
                                  (FEW_DESCRIPTORS, "problem", "not one client")):
            finding = self.doctor(*arguments, preexec_fn=lower(resource.RLIMIT_NOFILE, soft))["limits"]["descriptors"]
            self.assert_finding(finding, level, text)
            if level != "ok":
                self.assertIn("4160", finding["command"])

    def test_the_command_mends_descriptors(self):
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4160:
            self.skipTest("the hard limit of descriptors is too low to raise the soft one")
        arguments = ("--pool-bytes", "16MiB", "--backend", "tcp")
        command = self.doctor(*arguments, preexec_fn=lower(resource.RLIMIT_NOFILE, 500))["limits"]["descriptors"]["command"]
        mended = subprocess.run(
            ["sh", "-c", f"ulimit -S -n 500; {command}; exec \"$FARPAGE\" doctor --backend tcp --json -"],
            capture_output=True, text=True, env=self.environment, check=False)
        self.assertEqual(json.loads(mended.stdout)["findings"]["limits"]["descriptors"]["level"], "ok", mended.stdout)

    def test_memlock(self):
        def without_the_capability(soft):
            libc = ctypes.CDLL(None)

            def prepare():
                # Refused without root, whose process has no such right to lose.
                libc.prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)
                resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, soft))

            return prepare

        arguments = ("--pool-bytes", "1MiB", "--backend", "verbs")
        few = self.doctor(*arguments, preexec_fn=without_the_capability(65536))["limits"]["memlock"]
        self.assert_finding(few, "problem", "64 KiB")
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        if hard == resource.RLIM_INFINITY or hard >= 2 << 20:
            many = self.doctor(*arguments, preexec_fn=without_the_capability(2 << 20))["limits"]["memlock"]
            self.assert_finding(many, "ok", "2 MiB")
        shm = ("--pool-bytes", "1MiB", "--backend", "shm")
        self.assert_finding(
            self.doctor(*shm, preexec_fn=without_the_capability(65536))["limits"]["memlock"], "note")

    def test_no_file_may_be_large(self):
        def prepare():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

        finding = self.doctor("--backend", "shm", preexec_fn=prepare)["backends"]["shm"]
        self.assert_finding(finding, "problem", "ulimit")


class ListenTest(DoctorCase):
    def listen(self, address):
        findings = self.doctor("--pool-bytes", "16MiB", "--listen", address)["listen"]
        self.assertEqual(len(findings), 1)
        return next(iter(findings.values()))

    def test_no_address_is_asked_for(self):
        self.assertNotIn("listen", self.doctor("--pool-bytes", "16MiB"))

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.assert_finding(self.listen(f"tcp://127.0.0.1:{port}"), "problem", "in use", "--listen tcp://127.0.0.1:")
        self.assert_finding(self.listen(f"tcp://127.0.0.1:{port}"), "ok", "free")

    def test_all_addresses_mean_ipv4_too(self):
        if not socket.has_dualstack_ipv6():
            self.skipTest("hardware: no IPv6 here")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.assert_finding(self.listen(f"tcp://[::]:{port}"), "problem", "in use", "--listen 'tcp://[::]:")
        self.assert_finding(self.listen(f"tcp://[::]:{port}"), "ok", "free")

    def test_names_and_addresses_that_are_not_of_this_host(self):
        self.assert_finding(self.listen("tcp://no-such-host.invalid:7000"), "problem", "does not resolve",
                            "--listen tcp://0.0.0.0:7000")
        self.assert_finding(self.listen("tcp://192.0.2.1:7000"), "problem", "not an address of this host")
        self.assert_finding(self.listen("tcp://localhost:0"), "ok")

    def test_folders(self):
        folder = self.folder / "none"
        finding = self.listen(folder / "node.sock")
        self.assert_finding(finding, "problem", f"no folder {folder}", f"mkdir -p {folder}")
        subprocess.run(["sh", "-c", finding["command"]], check=True)
        self.assert_finding(self.listen(folder / "node.sock"), "ok")
        self.assert_finding(self.listen(self.folder / ("x" * 120)), "problem", "107")

    def test_a_node_that_listens_there(self):
        node = self.start_node()
        self.assert_finding(self.listen(node.socket), "problem", "another process listens")
        node.kill()
        node.wait()
        self.assert_finding(self.listen(node.socket), "ok")


if __name__ == "__main__":
    unittest.main()
