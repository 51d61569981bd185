"""A test's second process: the same file, called with arguments, which says what it has done and
waits for what comes next."""

import subprocess
import sys

SAYS = "child: "
UNCAUGHT = ("Traceback", "Exception ignored", "was destroyed", "Fatal Python error")


def say(what):
    print(f"{SAYS}{what}", flush=True)


def hear():
    sys.stdin.readline()


def start(case, file, *arguments):
    """Its logs go to a file of the case's folder."""
    log = case.folder / "child.log"
    with log.open("w", encoding="utf-8") as errors:
        child = subprocess.Popen([sys.executable, "-B", "-X", "faulthandler", str(file), *map(str, arguments)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
    child.log = log
    case.addCleanup(case.end, child)
    return child


def wait_for(child, what):
    for line in child.stdout:
        if line == f"{SAYS}{what}\n":
            return
    raise AssertionError(f"it has ended without {what!r}: {child.log.read_text()[-4000:]}")


def go_on(child):
    child.stdin.write("\n")
    child.stdin.flush()


def uncaught(child):
    return [line for line in child.log.read_text().splitlines() if any(words in line for words in UNCAUGHT)]
