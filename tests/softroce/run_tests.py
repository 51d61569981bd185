#!/usr/bin/env python3
"""Runs tests inside the machine, one after the other: run_tests.py --junit FILE [--filter GLOB] TEST...

A test is an executable file: a GoogleTest program, each case of which counts, or a script, which counts as one. What a script skips it
says in a line that begins with "skipped: ".
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
Case = collections.namedtuple("Case", "name outcome reason")


def is_script(path):
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def stream(command, limit_s):
    """(exit status, lines) of a command, all of which are printed as they come; it ends with what it has started."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          errors="replace", start_new_session=True) as process:
        def end():
            lines.append(f"it did not end within {limit_s} s")
            os.killpg(process.pid, signal.SIGKILL)
        timer = threading.Timer(limit_s, end)
        timer.start()
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
        process.wait()
        timer.cancel()
    return process.returncode, lines


def script_cases(path, limit_s):
    status, lines = stream([path], limit_s)
    skipped = [Case(f"{path.stem} {number}", "skipped", line.removeprefix(SKIPPED))
               for number, line in enumerate((line for line in lines if line.startswith(SKIPPED)), 1)]
    if status != 0:
        return [*skipped, Case(path.stem, "failed", lines[-1] if lines else f"exit status {status}")]
    return skipped or [Case(path.stem, "passed", "")]


def program_cases(path, limit_s):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        status, lines = stream([path, f"--gtest_output=xml:{report}", "--gtest_color=no"], limit_s)
        # A program that crashed has written none.
        cases = [gtest_case(path.name, case) for case in xml.parse(report).iter("testcase")] if report.exists() else []
    if status != 0 and not any(case.outcome == "failed" for case in cases):
        cases.append(Case(path.name, "failed", f"exit status {status}: {lines[-1] if lines else 'it said nothing'}"))
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

    every, table = [], []
    for test in chosen:
        print(f"=== {test.stem}", flush=True)
        begin = time.monotonic()
        cases = (script_cases if is_script(test) else program_cases)(test.absolute(), options.limit_s)
        counts = collections.Counter(case.outcome for case in cases)
        table.append(f"{test.stem:32} passed {counts['passed']:4}  failed {counts['failed']:3}  skipped {counts['skipped']:3}  "
                     f"{time.monotonic() - begin:6.1f} s")
        every += cases
    junit(every).write(options.junit)
    print("=== all")
    for case in every:
        if case.outcome in ("failed", "skipped"):
            print(f"{case.outcome}: {case.name}: {case.reason}")
    print("\n".join(table))
    return 1 if any(case.outcome == "failed" for case in every) else 0


if __name__ == "__main__":
    sys.exit(main())
