"""Children of a fork, for tests: an engine's processes are mostly forked."""

import os
import random
import select
import signal
import time
import traceback

import torch
from program import wait_until

READY_S = 100
torch.set_num_threads(1)  # more of OpenMP's do not work in the child of a fork


def fork(case, work):
    """The id of a child that does `work()` and ends: with 0, or 1 and what went wrong."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # nothing of the test's own is run a second time

    case.addCleanup(kill, pid)
    return pid


def kill(pid):
    """Also if it has ended."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def ended(case, pid, seconds=60):
    """Its exit code, once it has ended."""
    found = []

    def is_over():
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        found.append(status)
        return ended_pid == pid

    case.assertTrue(wait_until(is_over, seconds), "the child hangs")
    return os.waitstatus_to_exitcode(found[-1])


def killed_while(case, work, times, most_s=0.5):
    """Children that do `work(ready, number)` without end, and are killed somewhere in it, once each
    has said that it is ready."""
    chance = random.Random("kill")
    for number in range(times):
        read, write = os.pipe()
        pid = fork(case, lambda write=write, number=number: work(lambda: os.write(write, b"r"), number))
        os.close(write)
        case.assertTrue(select.select([read], [], [], READY_S)[0], "the child hangs")
        case.assertEqual(os.read(read, 1), b"r")
        os.close(read)
        time.sleep(chance.uniform(0, most_s))  # any moment will do
        case.assertEqual(os.waitpid(pid, os.WNOHANG), (0, 0), "the child has ended by itself")
        kill(pid)
