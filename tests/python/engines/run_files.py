"""Runs files of tests, as `python FILE` would: each in a fork of a process that has imported the
engine's modules, which takes most of the time of a short one.

run_files.py --import MODULES --timeout SECONDS

It reads a path a line, runs that file at once, and writes a line of JSON for each that has ended:
file, code, seconds, cpu_s (with the processes that it waited for), said. It ends after its input.
"""

import argparse
import contextlib
import importlib
import json
import os
import pathlib
import runpy
import select
import signal
import sys
import tempfile
import time


class Running:
    """A file under way, in a session of its own."""

    def __init__(self, file, pid, output, timeout_s):
        self.file, self.pid, self.output = file, pid, output
        self.begun_s = time.monotonic()
        self.until_s = self.begun_s + timeout_s
        self.timeout_s = timeout_s
        self.descriptor = os.pidfd_open(pid)

    def fileno(self):
        return self.descriptor

    def kill(self):
        with contextlib.suppress(ProcessLookupError):  # it has no session yet, or none any more
            os.killpg(self.pid, signal.SIGKILL)

    def end(self):
        """What it has come to, if it has ended; if it is late, it ends now."""
        late = time.monotonic() >= self.until_s
        if late:
            self.kill()
        ended, status, usage = os.wait4(self.pid, 0 if late else os.WNOHANG)
        if ended == 0:
            return None
        self.kill()  # what it left behind
        os.close(self.descriptor)
        self.output.seek(0)
        said = self.output.read().decode(errors="replace")
        if late:
            said += f"\nit has not ended for {self.timeout_s} s\n"
        return {"file": self.file, "code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - self.begun_s,
                "cpu_s": usage.ru_utime + usage.ru_stime, "said": said}


def become(file, output):
    """In the child: what `python FILE` finds."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.argv[:] = [file]
    sys.path[0] = str(pathlib.Path(file).resolve().parent)
    runpy.run_path(file, run_name="__main__")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--import", dest="modules", default="", help="separated by commas")
    parser.add_argument("--timeout", type=float, required=True)
    options = parser.parse_args()
    for module in filter(None, options.modules.split(",")):
        importlib.import_module(module)
    under_way, asked, more = [], b"", [sys.stdin]
    try:
        while more or under_way:
            left_s = max(0, min(each.until_s for each in under_way) - time.monotonic()) if under_way else None
            if sys.stdin in select.select([*more, *under_way], [], [], left_s)[0]:
                came = os.read(sys.stdin.fileno(), 65536)
                if not came:
                    more = []
                *files, asked = (asked + came).split(b"\n")
                for file in map(os.fsdecode, files):
                    output = tempfile.TemporaryFile()
                    pid = os.fork()
                    if pid == 0:
                        under_way = []
                        return become(file, output)
                    under_way.append(Running(file, pid, output, options.timeout))
            for each in list(under_way):
                if (ended := each.end()) is not None:
                    under_way.remove(each)
                    print(json.dumps(ended), flush=True)
    finally:
        for each in under_way:
            each.kill()


if __name__ == "__main__":
    main()
