"""Rules about what may include what."""

import pathlib

from sources import folder_of, in_folder

LIBRARIES = {
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
    "node": ["base", "integrity", "transport", "pagetable", "control", "tier"],
    "doctor": ["base", "net"],
}
BACKENDS = {f"transport/{name}" for name in ("shm", "tcp", "ucx", "verbs", "cuda", "sim", "fault")}
PARTS = BACKENDS | {"integrity/cuda"}
# Where a program is put together: these alone choose a backend.
COMPOSITION_ROOTS = {
    "bench": {*LIBRARIES},
    "cli": {*LIBRARIES, "bench"},
    "tests": {*LIBRARIES, "bench", "cli"},
    "fuzz": {*LIBRARIES, "bench"},
}

VENDOR_PREFIXES = ("infiniband/", "rdma/", "ucp/", "uct/", "ucs/", "cuda")
VENDOR_FOLDERS = ("transport/verbs", "transport/ucx", "transport/cuda", "integrity/cuda")
# Of these, not even a header of the folder may show any.
SOURCE_VENDOR_PREFIX, SOURCE_VENDOR_FOLDER = "prometheus/", "metrics"

EXPENSIVE_PREFIXES = ("boost/asio", "toml++/", "CLI/")
EXPENSIVE_SOURCES_MAX = 4  # besides each subcommand's own
SUBCOMMAND_FOLDER, SUBCOMMAND_SUFFIX = "cli", "_command.cc"


def layer_of(path):
    for part in PARTS:
        if in_folder(path, part):
            return part
    return path.partition("/")[0] if "/" in path else ""


def allowed_layers(layer):
    if layer in COMPOSITION_ROOTS:
        return COMPOSITION_ROOTS[layer] | PARTS | {layer}
    if layer in PARTS:
        parent = layer.partition("/")[0]
        return {*LIBRARIES[parent], parent, layer}
    if layer in LIBRARIES:
        return {*LIBRARIES[layer], layer}
    return None


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
        for number, kind, included in tree.includes(path):
            if kind != '"':
                continue
            resolved = resolve(tree, included)
            if resolved is None:
                yield f"{path}:{number}: \"{included}\" is no path from the root of the project"
            elif layer_of(resolved) not in allowed:
                yield f"{path}:{number}: {layer} may not include {layer_of(resolved)} ({included})"


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


def mirrors(path, folder):
    """Whether a file lies in the folder, or in the folder of its tests."""
    return folder_of(path) in (folder, f"tests/{folder}")


def expensive(tree):
    costly = {}
    for path in tree.cpp():
        for number, _, included in tree.includes(path):
            if included.startswith(EXPENSIVE_PREFIXES):
                costly.setdefault(path, f"{path}:{number}: {included}")
    sources = []
    for path in tree.cpp():
        reached = reachable(tree, path).intersection(costly)
        is_subcommand = folder_of(path) == SUBCOMMAND_FOLDER and path.endswith(SUBCOMMAND_SUFFIX)
        if path.endswith(".cc") and reached and not is_subcommand:
            sources.append(path)
        for header in sorted(reached - {path}):
            if not mirrors(path, folder_of(header)):
                yield f"{costly[header]} reaches another folder's {path}: include it in the .cc instead"
    if len(sources) > EXPENSIVE_SOURCES_MAX:
        names = ", ".join(sources)
        yield f"{len(sources)} sources see {', '.join(EXPENSIVE_PREFIXES)}; {EXPENSIVE_SOURCES_MAX} may: {names}"
