"""`lmcache server` processes with Farpage as their L2, for tests: started as docs/engines.md tells,
with configs/engines/lmcache.json."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import urllib.request

from documented import command, configuration
from program import Case, wait_until

PYTHON = pathlib.Path(__file__).resolve().parents[3] / "python"
LMCACHE = str(pathlib.Path(sys.executable).parent / "lmcache")
PATIENCE_S = 200


def free_ports(count):
    with_ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in with_ports]
    for each in with_ports:
        each.close()
    return ports


class ServerCase(Case):
    def setUp(self):
        super().setUp()
        self.environment = {**self.environment, "PYTHONPATH": f"{PYTHON}:{pathlib.Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}",
                            "LMCACHE_TRACK_USAGE": "false"}

    def adapter(self, node, **params):
        """The L2 adapter as a server is told of it."""
        adapter = configuration("lmcache.json")
        adapter["adapter_params"].update({"node": node.address, "timeout_ms": 2000, "dtype": "float32", **params})
        return adapter

    def server(self, name, adapter, chunk_tokens):
        """Starts one, whose folder of shared memory is its own, and waits until it serves."""
        rpc, http, metrics = free_ports(3)
        log = open(self.folder / f"{name}.log", "w", encoding="utf-8")
        self.addCleanup(log.close)
        *documented, _ = command("lmcache server")[1:]  # but for the adapter
        # Of an option the last one counts.
        process = subprocess.Popen(
            [LMCACHE, *documented, json.dumps(adapter), "--l1-size-gb", "0.25", "--no-l1-use-lazy", "--chunk-size", str(chunk_tokens),
             "--port", str(rpc), "--http-port", str(http), "--prometheus-port", str(metrics), "--supported-transfer-mode", "auto",
             "--shm-name", f"fp-{os.getpid()}-{name}"],
            env=self.environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        process.log, process.port, process.url = self.folder / f"{name}.log", rpc, f"http://localhost:{http}"
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

    def run_lmcache(self, server, *arguments):
        ended = subprocess.run([LMCACHE, *arguments], capture_output=True, text=True, env=self.environment, cwd=self.folder, timeout=PATIENCE_S, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr + server.log.read_text())
        return ended.stdout

    def clear(self, server):
        """L1 alone. LMCache keeps what a store or a load of its own still holds, so that it is told
        again until neither is under way and L1 is empty."""
        self.assertTrue(wait_until(lambda: self.is_cleared(server), PATIENCE_S), server.log.read_text())

    def is_cleared(self, server):
        self.ask(server, "/cache/clear", {"tier": "l1"})
        status = self.ask(server, "/status")["storage_manager"]
        store, prefetch = status["store_controller"], status["prefetch_controller"]
        return not any((status["l1_manager"]["total_object_count"], store["pending_keys_count"], store["in_flight_task_count"],
                        prefetch["submission_queue_size"], prefetch["pending_queue_size"], prefetch["in_flight_request_count"]))

    def ask(self, server, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{server.url}{path}", data, {"Content-Type": "application/json"}), timeout=60) as answer:
            return json.loads(answer.read())

    def pages(self, node):
        """None: the node is too busy to say."""
        status = self.status(node)
        return status and status["slots_live"]
