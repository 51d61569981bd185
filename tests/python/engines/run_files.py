"""Runs files of tests, as `python FILE` would, several at a time: each in a fork of a process that
has imported the engine's modules, which takes most of the time of a short one.

run_files.py --import MODULES --jobs N --timeout SECONDS FILE...

It writes a line of JSON for each file that has ended: file, code, seconds, said.
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
        ended, status = os.waitpid(self.pid, 0 if late else os.WNOHANG)
        if ended == 0:
            return None
        self.kill()  # what it left behind
        os.close(self.descriptor)
        self.output.seek(0)
        said = self.output.read().decode(errors="replace")
        if late:
            said += f"\nit has not ended for {self.timeout_s} s\n"
        return {"file": self.file, "code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - self.begun_s, "said": said}


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
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    for module in filter(None, options.modules.split(",")):
        importlib.import_module(module)
    waiting, under_way = options.files, []
    try:
        while waiting or under_way:
            while waiting and len(under_way) < options.jobs:
                file, output = waiting.pop(0), tempfile.TemporaryFile()
                pid = os.fork()
                if pid == 0:
                    under_way = []
                    return become(file, output)
                under_way.append(Running(file, pid, output, options.timeout))
            select.select(under_way, [], [], max(0, min(each.until_s for each in under_way) - time.monotonic()))
            for each in list(under_way):
                if (ended := each.end()) is not None:
                    under_way.remove(each)
                    print(json.dumps(ended), flush=True)
    finally:
        for each in under_way:
            each.kill()


if __name__ == "__main__":
    main()
