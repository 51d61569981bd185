"""Sockets, memory and pages that do not fit."""

import contextlib
import os
import pathlib
import resource
import signal
import socket
import unittest

from program import Case, processes_naming, skip_or_fail, wait_until

MEMORY_GROUPS = (
    (pathlib.Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (pathlib.Path("/sys/fs/cgroup"), "memory.max"),
)


@contextlib.contextmanager
def memory_group(limit_bytes):
    """A cgroup with this limit; nothing where none can be made."""
    for root, limit in MEMORY_GROUPS:
        group = root / f"farpage-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(limit_bytes))
        except OSError:
            group.rmdir()
            continue
        try:
            yield group
        finally:
            group.rmdir()
        return
    yield None


class SocketsTest(Case):
    def test_two_nodes_on_one_path(self):
        node = self.start_node()
        second = self.run_program("node", "--listen", node.socket, "--state", self.folder / "second.state",
                                  "--pool-bytes", "16MiB")
        self.assert_fails(second, 1, str(node.socket))
        self.assertIsNotNone(self.status(node), "the first one goes on")

    def test_two_nodes_on_one_state_file(self):
        self.start_node()
        second = self.run_program("node", "--listen", self.folder / "second.sock", "--state",
                                  self.folder / "node.state", "--pool-bytes", "16MiB")
        self.assert_fails(second, 1, "node.state")

    def test_a_socket_that_nobody_listens_on_any_more(self):
        node = self.start_node()
        node.kill()
        node.wait()
        self.assertTrue(node.socket.exists())
        self.assertIsNotNone(self.status(self.start_node()))

    def test_a_path_that_is_too_long(self):
        path = self.folder / ("x" * 120)
        for result in (
            self.run_program("node", "--listen", path, "--state", self.folder / "s", "--pool-bytes", "16MiB"),
            self.run_program("status", "--node", path),
            self.run_program("replay", "generate", "--node", path),
        ):
            self.assert_fails(result, 1, "choose a shorter one")
        self.environment["TMPDIR"] = str(self.temporary / ("y" * 120))
        os.mkdir(self.environment["TMPDIR"])
        self.assert_fails(self.run_program("replay", "generate", "--pool-bytes", "16MiB"), 1, "shorter", "TMPDIR")
        os.rmdir(self.environment["TMPDIR"])
        self.assert_nothing_left()

    def test_a_folder_that_is_not_there(self):
        result = self.run_program("node", "--listen", self.folder / "none/n.sock", "--state", self.folder / "s",
                                  "--pool-bytes", "16MiB")
        self.assert_fails(result, 1, f"{self.folder}/none", "make it first")
        self.environment["TMPDIR"] = str(self.folder / "none")
        self.assert_fails(self.run_program("replay", "generate"), 1, "TMPDIR")


class AddressBeforeMemoryTest(Case):
    """The address is told first, before memory that cannot be had and an epoch."""

    def fails(self, listen, *arguments, says):
        result = self.run_program("node", "--listen", listen, "--state", self.folder / "late.state",
                                  "--pool-bytes", "64TiB", *arguments)
        self.assert_fails(result, 1, says)
        self.assertNotIn("pool_bytes", result.stderr)
        self.assertFalse((self.folder / "late.state").exists(), "no epoch is spent")

    def test_a_socket_in_use(self):
        self.fails(self.start_node().socket, says="another node listens")

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.fails(f"tcp://127.0.0.1:{port}", says="in use")
            self.fails(self.folder / "n.sock", "--set", f'node.metrics_listen="127.0.0.1:{port}"', says="in use")
        self.assertFalse((self.folder / "n.sock").exists())


class MemoryTest(Case):
    def test_a_pool_beyond_memory(self):
        node = self.run_program("node", "--listen", self.folder / "n.sock", "--state", self.folder / "s",
                                "--pool-bytes", "64TiB")
        self.assert_fails(node, 1, "smaller pool_bytes")
        self.assertFalse((self.folder / "n.sock").exists())
        self.assert_fails(self.run_program("replay", "generate", "--pool-bytes", "64TiB"), 1, "pool_bytes")
        self.assert_nothing_left()

    def test_more_for_clients_than_there_is(self):
        node = self.run_program("node", "--listen", self.folder / "n.sock", "--state", self.folder / "s",
                                "--pool-bytes", "16MiB", "--set", "node.staging_budget_bytes=64TiB")
        self.assert_fails(node, 1, "64 TiB (node.staging_budget_bytes)", "node.max_clients", "smaller pool_bytes")
        self.assertFalse((self.folder / "n.sock").exists())

    def test_local_pages_beyond_memory(self):
        for pages in (10**10, 10**18):
            result = self.run_program("replay", "generate", "--pool-bytes", "64MiB", "--local-pages", pages)
            self.assert_fails(result, 1, "local pages", "choose fewer")
        self.assert_nothing_left()

    def test_a_batch_beyond_memory(self):
        result = self.run_program("bench", "fetch", "--batch", "10000000", "--depth", "1000")
        self.assert_fails(result, 2, "choose a smaller batch")

    def test_too_little_address_space(self):
        if os.environ.get("FARPAGE_SANITIZE"):
            return  # a sanitizer's shadow takes the address space itself; other builds run this
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
        result = self.run_program("node", "--listen", self.folder / "n.sock", "--state", self.folder / "s",
                                  "--pool-bytes", "2GiB", preexec_fn=limit)
        self.assert_fails(result, 1, "2.0 GiB", "ulimit -v")
        result = self.run_program("replay", "generate", "--pool-bytes", "2GiB", preexec_fn=limit)
        self.assert_fails(result, 1, "the memory node did not start", "ulimit -v")
        self.assert_nothing_left()

    def test_a_memory_cgroup(self):
        with memory_group(128 << 20) as group:
            if group is None:
                skip_or_fail(self, "no memory cgroup can be made here: run the tests as root, or in a delegated cgroup")
            enter = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
            result = self.run_program("node", "--listen", self.folder / "n.sock", "--state", self.folder / "s",
                                      "--pool-bytes", "512MiB", preexec_fn=enter)
            self.assert_fails(result, 1, "smaller pool_bytes")
            small = ("node", "--listen", self.folder / "n.sock", "--state", self.folder / "s", "--pool-bytes", "16MiB")
            result = self.run_program(*small, preexec_fn=enter)
            self.assert_fails(result, 1, "node.staging_budget_bytes", "node.max_clients")
            # By itself it takes no more than what the group leaves.
            result = self.run_program("replay", "generate", "--requests", "20", "--page-bytes", "4KiB",
                                      preexec_fn=enter)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_nothing_left()

    def test_a_node_that_is_killed_while_it_takes_its_memory(self):
        # As the kernel does when a limit is met there.
        program = self.start_program("replay", "generate", "--pool-bytes", "4GiB")
        self.assertTrue(wait_until(lambda: processes_naming(str(self.temporary))))
        for process in processes_naming(str(self.temporary)):
            os.kill(process, signal.SIGKILL)
        _, errors = program.communicate(timeout=60)
        self.assertEqual(program.returncode, 1)
        self.assertIn("lack of memory", errors)
        self.assert_nothing_left()


class PagesTest(Case):
    def test_a_page_larger_than_its_slot(self):
        node = self.start_node("--page-bytes", "4096")
        result = self.run_program("replay", "generate", "--page-bytes", "8192", "--node", node.socket)
        self.assert_fails(result, 1, "larger than the node's slots of 4 KiB")
        self.assert_fails(
            self.run_program("bench", "fetch", "--page-bytes", "8192", "--node", node.socket), 1, "slots of 4 KiB")

    def test_a_page_larger_than_any(self):
        self.assert_fails(self.run_program("replay", "generate", "--page-bytes", "1GiB"), 1, "page_bytes")


if __name__ == "__main__":
    unittest.main()
