"""The program over UCX, on this machine alone: right counts, and a path that is truly one-sided."""

import json
import pathlib
import re
import shutil
import subprocess
import unittest

from counts import Counts
from program import LAB, PROGRAM, Case, program_of, ucx_mapped, wait_until
from tenants import LISTEN, Tenants

OVER_UCX = ("--backend", "ucx", "--set")
POOL = ("--pool-bytes", "64MiB")


MODULE = pathlib.Path("lib/farpage/libfarpage_ucx.so")


class LoadingTest(Case):
    """UCX acts in each process that has it, so only those have it that were asked to."""

    def mapped_in_node_and_client(self, backend, *arguments):
        listen = "tcp://127.0.0.1:0" if backend == "tcp" else None
        node = self.start_node("--backend", backend, *arguments, name=backend, listen=listen)
        client = self.start_program("replay", "generate", "--requests", 100_000, "--page-bytes", 4096, "--backend", backend,
                                    "--node", node.address, "--set", "client.connect_ms=20000")
        self.assertTrue(wait_until(lambda: self.has_served(node) or client.poll() is not None))
        self.assertIsNone(client.poll(), client.poll() is not None and client.communicate()[1])
        return ucx_mapped(node), ucx_mapped(client)

    def has_served(self, node):
        status = self.status(node)  # None: it did not answer in time
        return status is not None and status["verdicts"]["ready"] > 0

    def test_only_where_it_was_asked_for(self):
        for backend in ("shm", "tcp"):
            self.assertEqual(self.mapped_in_node_and_client(backend), (set(), set()), backend)
        every = {"ucp", "uct", "ucs", "ucm", "farpage_ucx"}
        self.assertEqual(self.mapped_in_node_and_client("ucx", "--set", "ucx.trusted_clients=true"), (every, every))


class FilesTest(Counts, Case):
    """The program and the module as files, somewhere else than where they were built."""

    def program_at(self, prefix):
        (prefix / "bin").mkdir()
        for program in (PROGRAM, LAB):
            shutil.copy(program, prefix / "bin")

    def command(self, arguments, place):
        return [str((place or self.folder) / "bin" / pathlib.Path(program_of(arguments)).name), *map(str, arguments)]

    def node_there(self, place):
        return self.run_program("node", "--listen", self.folder / "n.sock", "--state", self.folder / "n.state", *POOL, "--backend", "ucx",
                                "--set", "ucx.trusted_clients=true", "--set", "ucx.transports=posix", place=place)

    def doctor_there(self, place):
        return json.loads(self.run_program("doctor", "--backend", "ucx", "--json", "-", place=place).stdout)["findings"]["backends"]["ucx"]

    def test_installed(self):
        build = pathlib.Path(PROGRAM).parents[1]
        subprocess.run(["cmake", "--install", build, "--prefix", self.folder / "usr"], check=True, capture_output=True)
        answer = self.replay(*POOL, *OVER_UCX, "ucx.transports=posix", requests=20, place=self.folder / "usr")
        self.assertIn("posix/memory", answer["path"])
        self.assertEqual(self.doctor_there(self.folder / "usr")["level"], "ok")

    def test_without_the_module(self):
        self.program_at(self.folder)
        self.assert_fails(self.node_there(None), 1, f"{self.folder / MODULE}, which is not there", "-DFARPAGE_UCX=ON")
        finding = self.doctor_there(None)
        self.assertEqual(finding["level"], "problem")
        self.assertIn(str(self.folder / MODULE), finding["text"])
        self.assertIn("ready", self.run_program("replay", "generate", "--requests", 20, "--page-bytes", 4096, *POOL, "--backend", "shm").stdout)

    def test_another_version_of_it(self):
        self.program_at(self.folder)
        libraries = subprocess.run(["ldd", PROGRAM], check=True, capture_output=True, text=True).stdout
        (self.folder / MODULE).parent.mkdir(parents=True)
        shutil.copy(re.search(r"/\S*libfmt\S*", libraries).group(), self.folder / MODULE)
        self.assert_fails(self.node_there(None), 1, f"{self.folder / MODULE} is of another version", "farpage_backend_ucx_v")

    def test_what_is_no_module(self):
        self.program_at(self.folder)
        (self.folder / MODULE).parent.mkdir(parents=True)
        (self.folder / MODULE).write_text("no module")
        self.assert_fails(self.node_there(None), 1, "cannot be loaded", str(self.folder / MODULE), "libucx0")


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


class NoTenantsTest(Tenants):
    def test_a_node_with_tenants_is_refused(self):
        node = ("node", "--listen", LISTEN, "--state", self.folder / "n.state", *POOL, "--config", self.two())
        self.assert_fails(self.run_program(*node, "--backend", "ucx"), 2, "ucx trusts every client", "leave [tenant.NAME] out")


if __name__ == "__main__":
    unittest.main()
