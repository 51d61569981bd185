"""Code that the measuring programs share: runs of farpage, free ports, servers, a quiet host."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

QUIET_SHARE = 0.05  # of all cores
SAMPLE_S = 0.5
START_S = 30
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """A sentence for people."""


def run(command, timeout_s=600, **options):
    """The command's standard output."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, **options)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{command[0]} did not end within {timeout_s:.0f} s") from error
    if result.returncode != 0:
        said = (result.stderr.strip() or result.stdout.strip() or "nothing").splitlines()[-1]
        raise Failure(f"{' '.join(command)} failed: it says {said}")
    return result.stdout


def bench(program, *arguments):
    return json.loads(run([program, "bench", *map(str, arguments), "--json", "-"]))


def require(program, packages):
    """Ends the program with a sentence if farpage, or a program of a Debian package, is missing."""
    if shutil.which(program) is None:
        raise SystemExit(f"there is no program {program}: build the release preset, or name it with --farpage")
    missing = [name for name in packages if shutil.which(name) is None]
    if missing:
        names = " ".join(sorted({packages[name] for name in missing}))
        raise SystemExit(f"{', '.join(missing)} not found. Debian has what is missing: "
                         f"apt-get install --no-remove {names}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port):
    """Without connecting, which a server that serves one client only would take for that one."""
    listening = "0A"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if fields[3] == listening and int(fields[1].rpartition(":")[2], 16) == port:
                    return True
    return False


def end_with_parent():
    """In the child, before Popen returns: whenever this program ends, it has been asked for."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def running(command, stop_s=5, **options):
    """A process that ends with the block, and with this program whatever becomes of that."""
    process = subprocess.Popen([*map(str, command)], preexec_fn=end_with_parent, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(stop_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def serving(command, port, **options):
    """A server, once it listens."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with running(command, **{**quiet, **options}) as server:
        end = time.monotonic() + START_S
        while not is_listening(port):
            if server.poll() is not None or time.monotonic() > end:
                raise Failure(f"{command[0]} does not listen on port {port}")
            time.sleep(0.01)
        yield server


@contextlib.contextmanager
def memory_node(program, backend, folder, *arguments, address=None, inside=()):
    """(address, process) of a node that serves, in a folder of its own below this one.

    `inside`: the words of a command that runs it.
    """
    folder = tempfile.mkdtemp(dir=folder)
    if address is None:
        address = "tcp://127.0.0.1:0" if backend == "tcp" else f"{folder}/node.sock"
    command = [*inside, program, "node", "--backend", backend, "--listen", address, "--state", f"{folder}/node.state", *arguments]
    ready, said = os.pipe()
    with contextlib.ExitStack() as stack:
        answer = stack.enter_context(open(ready, encoding="utf-8"))
        with open(said, "w", encoding="utf-8"):  # the node has an end of its own
            process = stack.enter_context(running([*command, "--ready-fd", said], pass_fds=[said]))
        line = answer.readline().strip()
        word, _, address = line.partition(" ")
        if word != "ready":
            raise Failure(f"the memory node did not start: {line or 'it ended without a message'}")
        yield address, process


def cpu_times():
    """(busy, all) of all cores, in ticks; what the hypervisor took is not idle either."""
    with open("/proc/stat", encoding="ascii") as lines:
        ticks = [int(field) for field in lines.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def busy_share(sample_s=SAMPLE_S):
    """How busy the cores are while this program waits, 0 to 1: the load of everything else."""
    busy, total = cpu_times()
    time.sleep(sample_s)
    busy_after, total_after = cpu_times()
    return (busy_after - busy) / max(1, total_after - total)


def wait_until_quiet(patience_s, share=busy_share):
    """The load of everything else: the first low enough, or the last when patience has ended."""
    end = time.monotonic() + patience_s
    while True:
        load = share()
        if load <= QUIET_SHARE or time.monotonic() > end:
            return load


def median(runs, key):
    return statistics.median(key(run) for run in runs)
