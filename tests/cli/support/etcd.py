"""A real etcd, of one member or three, for a Case."""

import base64
import json
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request

from program import skip_or_fail, wait_until


def free_ports(count):
    """Free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Member:
    def __init__(self, case, name, client, peer, peers, scheme, arguments):
        self.case, self.url = case, f"{scheme}://127.0.0.1:{client}"
        self.command = [
            "etcd", "--bcrypt-cost", "4", "--name", name, "--data-dir", str(case.folder / f"etcd-{name}"),
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", ",".join(f"{each}=http://127.0.0.1:{port}" for each, port in peers.items()),
            "--unsafe-no-fsync", *map(str, arguments)]
        # The file is open as long as the member runs.
        self.log = open(case.folder / f"etcd-{name}.log", "ab")  # noqa: SIM115
        case.addCleanup(self.log.close)
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, start_new_session=True)
        self.case.addCleanup(self.end, self.process)

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait()

    def kill(self):
        self.end(self.process)

    def signal(self, number):
        self.process.send_signal(number)


class Etcd:
    def __init__(self, case, members=1, scheme="http", arguments=()):
        if shutil.which("etcd") is None:
            skip_or_fail(case, "there is no etcd: apt-get install etcd-server etcd-client")
        names = [f"e{i}" for i in range(members)]
        ports = free_ports(2 * members)
        peers = dict(zip(names, ports[members:]))
        self.case = case
        self.members = [Member(case, name, port, peers[name], peers, scheme, arguments) for name, port in zip(names, ports)]
        for member in self.members:
            member.start()
        case.assertTrue(wait_until(self.serves if scheme == "http" else self.listens))

    @property
    def endpoints(self):
        return ",".join(member.url for member in self.members)

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(self.members[0].url.rpartition(":")[2]))) == 0

    def serves(self):
        try:
            self.ask("kv/range", {"key": "AA=="})
        except (urllib.error.URLError, OSError):
            return False
        return True

    def ask(self, path, body, member=0, token=None):
        request = urllib.request.Request(
            f"{self.members[member].url}/v3/{path}", json.dumps(body).encode(), {"Authorization": token} if token else {})
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)

    def put(self, keys, value):
        """In one transaction."""
        puts = [{"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value.encode()).decode()} for key in keys]
        self.ask("kv/txn", {"success": [{"request_put": put} for put in puts]})

    def sent_bytes(self, member=0):
        """To all clients, in gRPC."""
        with urllib.request.urlopen(f"{self.members[member].url}/metrics", timeout=10) as response:
            for line in response.read().decode().splitlines():
                if line.startswith("etcd_network_client_grpc_sent_bytes_total "):
                    return float(line.split()[1])
        raise AssertionError("etcd does not count what it sends")

    def control(self, *words, environment=None):
        """etcdctl; what it prints."""
        result = subprocess.run(["etcdctl", "--endpoints", self.endpoints, *words], capture_output=True, text=True,
                                env={"ETCDCTL_API": "3", "PATH": "/usr/bin:/bin", **(environment or {})}, check=False)
        self.case.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def epoch(self, fleet="farpage"):
        """The content there; none yet: {}."""
        lines = self.control("get", "--print-value-only", f"/farpage/{fleet}/epoch").strip()
        return json.loads(lines) if lines else {}
