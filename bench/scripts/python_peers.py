"""Farpage's Python package beside other stores' (peers.py --python INTERPRETER), on one host.

Over loopback TCP, and beside NIXL, for which UCX chooses shared memory, also over that.
"""

import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

from compare import Case, Sides
from measure import Failure, free_port, memory_node, run, running, serving

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / "python"
PACKAGES = {"redis": "redis", "mooncake": "mooncake-transfer-engine-non-cuda", "nixl": "nixl"}
HELD_BYTES = 256 << 20
SHAPES = (("64 KiB × 32", 64 << 10, 32), ("2 MiB × 8", 2 << 20, 8))
KEYS = ("redis-py", "mooncake", "mooncake-puts", "nixl", "nixl-tcp")
UNITS = """
GB/s are 10⁹ bytes of values a second, in one process that gets batch after batch, drawn at random from 256 MiB; Farpage checks each page. Puts: 256 MiB under new names, one batch's bytes again and again, which are then removed; nothing reads them back.
"""


def require(interpreter):
    """Ends the program with a sentence if the interpreter lacks a package."""
    imports = "; ".join(f"import {name}" for name in ("numpy", *PACKAGES))
    found = shutil.which(interpreter)
    if found is None or subprocess.run([found, "-c", imports], capture_output=True, check=False).returncode != 0:
        raise SystemExit(f"{interpreter} lacks a package: python3 -m venv build/peers && "
                         f"build/peers/bin/pip install numpy {' '.join(PACKAGES.values())}")


class PythonCases:
    def __init__(self, options, folder):
        self.interpreter, self.program, self.seconds, self.folder = options.python, options.farpage, options.seconds, folder
        self.environment = {**os.environ, "PYTHONPATH": str(PYTHON), "MC_LOG_LEVEL": "ERROR", "NIXL_LOG_LEVEL": "ERROR",
                            "FARPAGE_LIBRARY": str(pathlib.Path(options.farpage).resolve().parents[1] / "lib/libfarpage.so")}

    def command(self, store, role, where, page_bytes, batch):
        return [self.interpreter, "-B", str(HERE / "stores" / f"store_{store}.py"), role, where, "--page-bytes", str(page_bytes), "--pages",
                str(HELD_BYTES // page_bytes), "--batch", str(batch), "--seconds", str(self.seconds)]

    @contextlib.contextmanager
    def held(self, roles, store, where, page_bytes, batch):
        """A function that gets pages for a while, or puts them: GB a second."""
        holder_role, role = roles
        hold = self.command(store, holder_role, where, page_bytes, batch)
        with running(hold, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
            if not any(line.strip() == "ready" for line in holder.stdout):
                raise Failure(f"{store} does not hold its pages")
            yield lambda: self.rate(role, store, where, page_bytes, batch)

    def rate(self, role, store, where, page_bytes, batch):
        printed = run(self.command(store, role, where, page_bytes, batch), env=self.environment)
        return float(printed.splitlines()[-1]) / 1e9

    @contextlib.contextmanager
    def redis(self):
        port = free_port()
        quiet = ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        with serving(["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", self.folder, *quiet], port):
            yield str(port)

    @contextlib.contextmanager
    def mooncake(self):
        port, metrics = free_port(), free_port()
        master = pathlib.Path(self.interpreter).parent / "mooncake_master"
        with serving([master, f"--rpc_port={port}", f"--metrics_port={metrics}"], port):
            yield f"127.0.0.1:{port}"

    @contextlib.contextmanager
    def nixl(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as where:
            yield where

    @contextlib.contextmanager
    def nixl_over_tcp(self):
        before, self.environment = self.environment, {**self.environment, "UCX_TLS": "tcp,self"}
        try:
            with self.nixl() as where:
                yield where
        finally:
            self.environment = before

    @contextlib.contextmanager
    def farpage(self, backend, page_bytes):
        sizes = ["--pool-bytes", str(HELD_BYTES * 3 // 2), "--page-bytes", str(page_bytes)]
        with memory_node(self.program, backend, self.folder, *sizes) as (address, _):
            yield address

    @contextlib.contextmanager
    def beside(self, roles, backend, store, server, page_bytes, batch):
        with contextlib.ExitStack() as stack:
            node = stack.enter_context(self.farpage(backend, page_bytes))
            ours = stack.enter_context(self.held(roles, "farpage", node, page_bytes, batch))
            where = stack.enter_context(server())
            yield Sides(ours, stack.enter_context(self.held(roles, store, where, page_bytes, batch)))

    def every(self):
        gets, puts = ("hold", "get"), ("offer", "put")
        peers = (("redis-py", "redis-py, MGET", gets, "tcp", "redis", self.redis),
                 ("mooncake", "Mooncake's store, batch_get_into", gets, "tcp", "mooncake", self.mooncake),
                 ("mooncake-puts", "Mooncake's store, batch_put_from", puts, "tcp", "mooncake", self.mooncake),
                 ("nixl", "NIXL, prepared READ", gets, "shm", "nixl", self.nixl),
                 ("nixl-tcp", "NIXL, prepared READ, UCX_TLS=tcp", gets, "tcp", "nixl", self.nixl_over_tcp))
        for shape, page_bytes, batch in SHAPES:
            for key, peer, roles, backend, *sides in peers:
                yield Case(key, f"Python, {backend}, {shape}", peer, "GB/s", 1.0,
                           functools.partial(self.beside, roles, backend, *sides, page_bytes, batch))
