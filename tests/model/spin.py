"""Runs spin: a model becomes C, the C a verifier, and the verifier searches."""

import dataclasses
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
TOOLS = ("spin", "gcc")
MEMORY_MIB = 8000
DEPTH_MAX = 1_000_000
ACTION = re.compile(r"^\s*((?:node|client|etcd|network|time|lane|check|copier|attempt)(?: \d)?: .*)$")
# A process that can do nothing any more is no error (-E): nothing has to happen.
SEARCH = ("-E", f"-m{DEPTH_MAX}")
EXACT = ("-DSAFETY", "-DNOREDUCE", f"-DMEMLIM={MEMORY_MIB}")


class SearchError(Exception):
    """The search itself failed: it says nothing about the model."""


@dataclasses.dataclass(frozen=True)
class Result:
    states: int
    seconds: float  # of processor time, without making the verifier
    memory_mib: float
    reached: frozenset[str]
    # A line for each action, then the violated invariant; empty: no state violates one.
    counterexample: tuple[str, ...]


def missing_tools():
    return [tool for tool in TOOLS if not shutil.which(tool)]


def _run(command, folder, timeout_s):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise SearchError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def _processor_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _number(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise SearchError(text)
    return float(found.group(1))


def _counterexample(model, defines, folder):
    trail = folder / f"{model.name}.trail"
    if not trail.exists():
        return ()
    # Its exit status tells of the violation that it replays.
    replay = subprocess.run(["spin", "-t", "-k", trail, *defines, model], cwd=folder, capture_output=True, text=True,
                            timeout=60, check=False).stdout
    actions = [match.group(1) for match in map(ACTION.match, replay.splitlines()) if match]
    violated = re.search(r"text of failed assertion: (.*)", replay)
    return (*actions, f"violates {violated.group(1) if violated else 'an assertion'}")


def search(model_name, names, shortest=False, timeout_s=3600):
    """Searches every state, or with `shortest` only until the shortest counterexample.

    `names` are macros, as NAME or NAME=VALUE.
    """
    model = FOLDER / f"{model_name}.pml"
    defines = [f"-D{name}" for name in names]
    with tempfile.TemporaryDirectory(prefix="farpage-model-") as place:
        folder = pathlib.Path(place)
        _run(["spin", "-a", *defines, model], folder, 60)
        # A search for the shortest counterexample is short: more optimisation of its verifier would
        # cost more time than it saves.
        mode = ("-O1", "-DBFS") if shortest else ("-O2",)
        _run(["gcc", "-w", *mode, *EXACT, "-o", "pan", "pan.c"], folder, 120)
        begin_s = _processor_s()
        said = _run(["./pan", *SEARCH, "-w22" if shortest else "-w26"], folder, timeout_s)
        seconds = _processor_s() - begin_s
        errors = _number(r"errors: (\d+)", said)
        counterexample = _counterexample(model, defines, folder)
        if (errors > 0) != bool(counterexample) or (not errors and ("not completed" in said or "max search depth too small" in said)):
            raise SearchError(said)
        return Result(
            states=int(_number(r"^\s*(\d+) states, stored", said)), seconds=seconds,
            memory_mib=_number(r"^\s*([\d.]+)\s+total actual memory usage", said) if "total actual" in said else 0.0,
            reached=frozenset(re.findall(r"^reached (\w+)$", said, re.MULTILINE)), counterexample=counterexample)
