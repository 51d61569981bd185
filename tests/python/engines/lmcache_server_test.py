"""LMCache's server with Farpage as its L2, driven by its own `lmcache bench server` on a CPU. Runs
in an environment with LMCache (scripts/test-engines)."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest
import urllib.request

from program import Case, wait_until

PYTHON = pathlib.Path(__file__).resolve().parents[3] / "python"
LMCACHE = str(pathlib.Path(sys.executable).parent / "lmcache")
PATIENCE_S, REQUESTS = 200, 3


def free_ports(count):
    with_ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in with_ports]
    for each in with_ports:
        each.close()
    return ports


class LmcacheServerTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.start_node("--page-bytes", "4MiB", pool="512MiB")
        self.environment = {**self.environment, "PYTHONPATH": f"{PYTHON}:{os.environ.get('PYTHONPATH', '')}", "LMCACHE_TRACK_USAGE": "false"}

    def server(self, name):
        """Starts one, whose folder of shared memory is its own, and waits until it serves."""
        rpc, http, metrics = free_ports(3)
        adapter = {"type": "plugin", "module_path": "farpage.engines.lmcache", "class_name": "FarpageAdapter",
                   "adapter_params": {"node": str(self.node.socket), "timeout_ms": 2000, "dtype": "float32", "chunk_tokens": 256}}
        log = open(self.folder / f"{name}.log", "w", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [LMCACHE, "server", "--l1-size-gb", "0.25", "--eviction-policy", "LRU", "--no-l1-use-lazy", "--chunk-size", "256", "--port", str(rpc),
             "--http-port", str(http), "--prometheus-port", str(metrics), "--supported-transfer-mode", "auto",
             "--shm-name", f"fp-{os.getpid()}-{name}", "--l2-adapter", json.dumps(adapter)],
            env=self.environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        process.log, process.rpc, process.url = self.folder / f"{name}.log", f"tcp://localhost:{rpc}", f"http://localhost:{http}"
        self.addCleanup(self.end_server, process)
        self.assertTrue(wait_until(lambda: self.serves(process), PATIENCE_S), process.log.read_text())
        return process

    def serves(self, process):
        self.assertIsNone(process.poll(), process.log.read_text())
        try:
            with urllib.request.urlopen(f"{process.url}/healthcheck", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def end_server(self, process):
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def bench(self, server):
        """({request: checksum of what it retrieved}, chunks found by the first look-ups)"""
        said = self.run_lmcache(server, "bench", "server", "--mode", "cpu", "--rpc-url", server.rpc, "--url", server.url, "--num-tokens", "512",
                                "--kvcache-shape-spec", "(2,256,16,4,64):float32:8", "--end", str(REQUESTS), "--interval", "0.02")
        checksums = dict(re.findall(r"\[seq (\d+)/\w+\] CHECKSUM: (\w+)", said))
        return checksums, [int(found) for found in re.findall(r"/cold\] LOOKUP: (\d+)/", said)]

    def run_lmcache(self, server, *arguments):
        ended = subprocess.run([LMCACHE, *arguments], capture_output=True, text=True, env=self.environment, cwd=self.folder, timeout=PATIENCE_S, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr + server.log.read_text())
        return ended.stdout

    def clear(self, server):
        """L1 alone."""
        self.run_lmcache(server, "kvcache", "clear", "--url", server.url)

    def test_what_left_l1_comes_back_and_another_server_finds_it(self):
        server = self.server("one")
        checksums, found = self.bench(server)
        self.assertEqual((len(checksums), len(set(checksums.values())), found), (REQUESTS, REQUESTS, [0] * REQUESTS))
        self.assertTrue(wait_until(lambda: self.pages(self.node) == 2 * REQUESTS))
        self.clear(server)
        self.assertEqual(self.bench(server), (checksums, [2] * REQUESTS))
        self.assertIn("(0 L1, 2 L2)", server.log.read_text())
        self.end_server(server)
        other = self.server("two")
        self.assertEqual(self.bench(other), (checksums, [2] * REQUESTS))
        self.node.kill()
        self.node.wait()
        self.clear(other)
        checksums_without, found = self.bench(other)
        self.assertEqual((len(checksums_without), found), (REQUESTS, [0] * REQUESTS))

    def pages(self, node):
        return self.status(node)["slots_live"]


if __name__ == "__main__":
    unittest.main()
