#!/usr/bin/env python3
"""Runs tests inside the machine, one after the other.

run_tests.py --junit FILE [--filter GLOB] TEST...

A test is an executable file: a GoogleTest program, each case of which counts, or a script, which
counts as one. A script reports a skip in a line that begins with "skipped: ".

All of them run in real time. One that fails runs once more after all others. If it passes then, the
last line names it as flaky: mend it. One that crashes or does not end has no second chance.
"""

import argparse
import collections
import fnmatch
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as xml

LIMIT_S = 600
SKIPPED = "skipped: "
CRASHED = "it crashed with "
NO_END = "it did not end within"
Case = collections.namedtuple("Case", "name outcome reason")


def is_script(path):
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def stream(command, limit_s):
    """(exit status, lines) of a command; prints the lines as they come, and ends all it started."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          errors="replace", start_new_session=True) as process:
        def end():
            lines.append(f"{NO_END} {limit_s} s")
            os.killpg(process.pid, signal.SIGKILL)
        timer = threading.Timer(limit_s, end)
        timer.start()
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
        process.wait()
        timer.cancel()
    return process.returncode, lines


def why(status, lines):
    """Of a test that failed."""
    said = lines[-1] if lines else "it said nothing"
    if said.startswith(NO_END):
        return said
    number = -status if status < 0 else status - 128  # a shell's child
    return f"{CRASHED}{signal.Signals(number).name}: {said}" if number > 0 else f"exit status {status}: {said}"


def script_cases(path, limit_s):
    status, lines = stream([path], limit_s)
    skipped = [Case(f"{path.stem} {number}", "skipped", line.removeprefix(SKIPPED))
               for number, line in enumerate((line for line in lines if line.startswith(SKIPPED)), 1)]
    if status != 0:
        return [*skipped, Case(path.stem, "failed", why(status, lines))]
    return skipped or [Case(path.stem, "passed", "")]


def program_cases(path, limit_s):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        status, lines = stream([path, f"--gtest_output=xml:{report}", "--gtest_color=no"], limit_s)
        # A program that crashed has written none.
        cases = [gtest_case(path.name, case) for case in xml.parse(report).iter("testcase")] if report.exists() else []
    if status < 0 or (status != 0 and not any(case.outcome == "failed" for case in cases)):
        cases.append(Case(path.name, "failed", why(status, lines)))
    if not cases:
        cases.append(Case(path.name, "failed", "it has no test"))
    return cases


def gtest_case(program, element):
    name = f"{program}.{element.get('classname')}.{element.get('name')}"
    skipped, failure = element.find("skipped"), element.find("failure")
    if failure is not None:
        return Case(name, "failed", failure.get("message"))
    if skipped is not None:
        return Case(name, "skipped", skipped.get("message").partition("\n")[2])
    return Case(name, "passed" if element.get("status") == "run" else "disabled", "")


def junit(cases):
    """As ctest writes it, for scripts/check-skips."""
    suite = xml.Element("testsuite", name="softroce", tests=str(len(cases)))
    status = {"passed": "run", "failed": "fail", "skipped": "notrun", "disabled": "disabled"}
    for case in cases:
        element = xml.SubElement(suite, "testcase", name=case.name, status=status[case.outcome])
        if case.outcome in ("failed", "skipped"):
            xml.SubElement(element, "failure" if case.outcome == "failed" else "skipped", message=case.reason)
        xml.SubElement(element, "system-out").text = f"{case.name}: Skipped\n{case.reason}" if case.outcome == "skipped" else case.reason
    return xml.ElementTree(suite)


def run(test, limit_s, table, which=""):
    """Its cases; the table gets a row."""
    print(f"=== {test.stem}", flush=True)
    begin = time.monotonic()
    cases = (script_cases if is_script(test) else program_cases)(test.absolute(), limit_s)
    counts = collections.Counter(case.outcome for case in cases)
    table.append(f"{which + test.stem:32} passed {counts['passed']:4}  failed {counts['failed']:3}  skipped {counts['skipped']:3}  "
                 f"{time.monotonic() - begin:6.1f} s")
    return cases


def failures(cases):
    return [case for case in cases if case.outcome == "failed"]


def deserves_another(cases):
    """A crash and a test without an end are never chance."""
    return failures(cases) and not any(case.reason.startswith((NO_END, CRASHED)) for case in failures(cases))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--junit", required=True, metavar="FILE")
    parser.add_argument("--filter", default="*", metavar="GLOB", help="only the tests with such names")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, metavar="S", help="seconds that one test may take")
    parser.add_argument("tests", type=pathlib.Path, nargs="+", metavar="TEST")
    options = parser.parse_args()
    chosen = [test for test in options.tests if fnmatch.fnmatch(test.stem, options.filter)]
    if not chosen:
        print(f"run_tests: no test is named {options.filter}; there are {', '.join(test.stem for test in options.tests)}", file=sys.stderr)
        return 2

    table = []
    every = {test: run(test, options.limit_s, table) for test in chosen}
    again = [test for test, cases in every.items() if deserves_another(cases)]
    for test in again:
        every[test] = run(test, options.limit_s, table, "again: ")
    cases = [case for cases in every.values() for case in cases]
    junit(cases).write(options.junit)
    print("=== all")
    for case in cases:
        if case.outcome in ("failed", "skipped"):
            print(f"{case.outcome}: {case.name}: {case.reason}")
    print("\n".join(table))
    if flaky := [test.stem for test in again if not failures(every[test])]:
        print(f"flaky (softroce): {' '.join(flaky)} failed at first, and passed the second time: mend them")
    return 1 if failures(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
