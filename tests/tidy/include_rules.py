"""Rules about what may include what."""

import pathlib
import re

from sources import folder_of, in_folder

# The folders that each folder may include, besides itself. They stand in the order of
# CMakeLists.txt, and none includes one that stands below it.
ROOMS = {
    "include": [],
    "base": [],
    "net": ["base"],
    "metrics": ["base", "net"],
    "integrity": ["base"],
    "transport": ["base", "net", "integrity"],
    "pagetable": ["base", "integrity", "transport"],
    "etcd": ["base", "net", "transport", "pagetable"],
    "prefetch": ["base"],
    "control": ["base", "net", "integrity", "transport"],
    "tier": ["base", "integrity", "transport", "pagetable", "prefetch", "control"],
    "node": ["base", "integrity", "transport", "pagetable", "prefetch", "control", "tier"],
    "doctor": ["base", "net"],
    "backends": ["base", "net", "transport", "doctor"],
    "client": ["include", "base", "net", "metrics", "integrity", "transport", "pagetable", "etcd", "prefetch", "control", "tier", "node",
               "backends"],
    "report": ["base", "integrity", "transport"],
    "replay": ["base", "integrity", "transport", "pagetable", "control", "tier", "report"],
    "bench": ["base", "net", "integrity", "transport", "pagetable", "control", "tier", "node", "client", "report", "replay"],
    "sim": ["base", "integrity", "transport", "pagetable", "control", "tier", "node", "replay"],
    "chaos": ["base", "net", "integrity", "transport", "pagetable", "etcd", "control", "tier", "node", "client", "report", "sim"],
    "lab": ["base", "integrity", "transport", "pagetable", "etcd", "prefetch", "control", "tier", "node", "report",
            "replay", "sim"],
}
# Libraries that serve: they print nothing, and know no wall clock.
SERVING = ("base", "net", "metrics", "integrity", "transport", "pagetable", "etcd", "prefetch", "control", "tier",
           "node", "doctor", "backends", "client")
# Parts know nothing of the others, and a fabric is chosen where a program is put together.
BACKENDS = {f"transport/{name}" for name in ("shm", "tcp", "ucx", "verbs", "cuda")} | {"sim/network", "sim/fault"}
PARTS = {
    **{backend: ["base", "net", "integrity", "transport"] for backend in BACKENDS},
    "integrity/cuda": ["base", "integrity"],
}
USES_PARTS = {"backends": ["transport/shm", "transport/tcp", "transport/ucx", "transport/verbs"],
              "bench": ["transport/cuda"], "client": ["transport/cuda"], "doctor": ["transport/cuda"],
              "sim": ["sim/network", "sim/fault"], "chaos": ["transport/cuda", "sim/network", "sim/fault"],
              "lab": ["sim/network", "sim/fault"]}
EVERYTHING = {*ROOMS, *PARTS}
# Where programs are put together.
COMPOSITION_ROOTS = {
    "cli/lab": EVERYTHING | {"cli"},
    "cli": (EVERYTHING | {"cli/lab"}) - {"sim", "chaos", "lab", "sim/network", "sim/fault", "cli/lab"},
    "tests": EVERYTHING | {"cli", "cli/lab"},
}

VENDOR_PREFIXES = ("infiniband/", "rdma/", "ucp/", "uct/", "ucs/", "cuda")
VENDOR_FOLDERS = ("transport/verbs", "transport/ucx", "transport/cuda", "integrity/cuda", "tests/transport/cuda")
# Of these, not even a header of the folder may show any.
SOURCE_VENDOR_PREFIX, SOURCE_VENDOR_FOLDER = "prometheus/", "metrics"

# Headers that programs include as <farpage/...>; so does everyone here.
PUBLIC_PREFIX, PUBLIC_FOLDER = "farpage/", "include"

EXPENSIVE_PREFIXES = ("boost/asio", "toml++/", "CLI/")
EXPENSIVE_SOURCES_MAX = 7  # besides each subcommand's own
SUBCOMMAND_FOLDERS, SUBCOMMAND_SUFFIX = ("cli/farpage", "cli/lab"), "_command.cc"


def layer_of(path):
    for part in (*PARTS, *COMPOSITION_ROOTS):
        if in_folder(path, part):
            return part
    return path.partition("/")[0] if "/" in path else ""


def allowed_layers(layer):
    for table in (COMPOSITION_ROOTS, PARTS):
        if layer in table:
            return {*table[layer], layer}
    if layer in ROOMS:
        return {*ROOMS[layer], *USES_PARTS.get(layer, []), layer}
    return None


def own_includes(tree, path):
    """(line number, what is included) of this project's headers."""
    for number, kind, included in tree.includes(path):
        if kind == '"' or included.startswith(PUBLIC_PREFIX):
            yield number, included if kind == '"' else f"{PUBLIC_FOLDER}/{included}"


def resolve(tree, included):
    """The path of a project header, or of the .proto that it is made from."""
    if included.endswith(".pb.h"):
        stem = pathlib.PurePosixPath(included).name[: -len(".pb.h")]
        for path in tree.ending(f"/{stem}.proto"):
            return path
    return included if (tree.root / included).is_file() else None


def layers(tree):
    for path in tree.cpp():
        layer = layer_of(path)
        allowed = allowed_layers(layer)
        if allowed is None:
            yield f"{path}:1: the folder '{layer}' stands in no layer; see tests/tidy/include_rules.py"
            continue
        for number, included in own_includes(tree, path):
            resolved = resolve(tree, included)
            if resolved is None:
                yield f"{path}:{number}: \"{included}\" is no path from the root of the project"
            elif layer_of(resolved) not in allowed:
                yield f"{path}:{number}: {layer} may not include {layer_of(resolved)} ({included})"


def _rooms_of_the_build(tree):
    added = re.findall(r"^add_subdirectory\((\w+)\)", tree.text("CMakeLists.txt"), re.MULTILINE)
    return [room for room in added if room in ROOMS]


def order(tree):
    """The list above is that of the build, and each room includes only what stands above it."""
    if "CMakeLists.txt" in tree.paths and _rooms_of_the_build(tree) != list(ROOMS):
        yield f"CMakeLists.txt:1: the order of its folders is not that of tests/tidy/include_rules.py: {', '.join(ROOMS)}"
    above = set()
    for room, included in ROOMS.items():
        for below in set(included) - above:
            yield f"tests/tidy/include_rules.py:1: {room} may include {below}, which stands below it"
        above.add(room)


def _folder_arrows(tree):
    """{folder: {folder that it includes: "file:line: included"}}"""
    arrows = {}
    for path in tree.cpp():
        if in_folder(path, "tests"):
            continue
        for number, included in own_includes(tree, path):
            resolved = resolve(tree, included)
            if resolved is not None and folder_of(resolved) != folder_of(path):
                arrows.setdefault(folder_of(path), {}).setdefault(folder_of(resolved), f"{path}:{number}: {included}")
    return arrows


def _reached(arrows, folder):
    seen, pending = set(), [folder]
    while pending:
        for following in arrows.get(pending.pop(), {}):
            if following not in seen:
                seen.add(following)
                pending.append(following)
    return seen


def circles(tree):
    """Data goes one way between folders, those within a room too."""
    arrows = _folder_arrows(tree)
    reached = {folder: _reached(arrows, folder) for folder in arrows}
    for folder, following in arrows.items():
        for other, where in following.items():
            if folder in reached.get(other, ()):
                yield f"{where} closes a circle: {other} reaches {folder} too"


def vendor(tree):
    for path in tree.cpp():
        if any(in_folder(path, folder) for folder in VENDOR_FOLDERS):
            continue
        for number, _, included in tree.includes(path):
            if included.startswith(VENDOR_PREFIXES):
                yield f"{path}:{number}: the vendor header {included} belongs into {', '.join(VENDOR_FOLDERS)}"
            is_source = in_folder(path, SOURCE_VENDOR_FOLDER) and path.endswith(".cc")
            if included.startswith(SOURCE_VENDOR_PREFIX) and not is_source:
                yield f"{path}:{number}: the vendor header {included} belongs into a .cc of {SOURCE_VENDOR_FOLDER}"


def own_header(tree):
    """It proves that the header stands by itself: CMakeLists.txt checks those without a source."""
    known = set(tree.paths)
    for path in tree.ending(".cc"):
        header = path.removesuffix(".cc") + ".h"
        if header not in known:
            continue
        number, _, included = next(tree.includes(path), (1, "", ""))
        if included != header:
            yield f"{path}:{number}: {header} is not the first that it includes"


def once(tree):
    for path in tree.ending(".h"):
        # A comment is left as an empty string.
        line = next((line.strip() for _, line in tree.code_lines(path) if line.strip('" ')), "")
        if line != "#pragma once":
            yield f"{path}:1: it does not begin with #pragma once"


def reachable(tree, path):
    """The path itself and every project header that it includes, directly or not."""
    seen, pending = {path}, [path]
    while pending:
        for _, kind, included in tree.includes(pending.pop()):
            if kind == '"' and included not in seen and (tree.root / included).is_file():
                seen.add(included)
                pending.append(included)
    return seen


def room_of(path):
    """Tests are of the room that they test."""
    return path.removeprefix("tests/").partition("/")[0]


def expensive(tree):
    costly = {}
    for path in tree.cpp():
        for number, _, included in tree.includes(path):
            if included.startswith(EXPENSIVE_PREFIXES):
                costly.setdefault(path, f"{path}:{number}: {included}")
    sources = []
    for path in tree.cpp():
        reached = reachable(tree, path).intersection(costly)
        is_subcommand = folder_of(path) in SUBCOMMAND_FOLDERS and path.endswith(SUBCOMMAND_SUFFIX)
        if path.endswith(".cc") and reached and not is_subcommand:
            sources.append(path)
        for header in sorted(reached - {path}):
            if room_of(path) != room_of(header):
                yield f"{costly[header]} reaches another room's {path}: include it in the .cc instead"
    if len(sources) > EXPENSIVE_SOURCES_MAX:
        names = ", ".join(sources)
        yield f"{len(sources)} sources see {', '.join(EXPENSIVE_PREFIXES)}; {EXPENSIVE_SOURCES_MAX} may: {names}"
