#!/usr/bin/env python3
"""Lets PyPI's torch, which is built for CUDA, be imported where no CUDA is:

cuda_stubs SITE_PACKAGES

The dynamic linker asks for each symbol that torch's libraries leave open. For the libraries of CUDA
that are not installed this makes stand-ins beside torch's: the same names and symbol versions, and
every function returns an error. Needs gcc and nm.
"""

import collections
import pathlib
import subprocess
import sys

# The name of a library, and how the names of its functions begin. A longer beginning comes first.
LIBRARIES = {
    "libcusparseLt.so.0": "cusparseLt", "libcusparse.so.12": "cusparse", "libcublasLt.so.13": "cublasLt", "libcublas.so.13": "cublas",
    "libcufft.so.12": "cufft", "libcurand.so.10": "curand", "libcudnn.so.9": "cudnn", "libnccl.so.2": ("nccl", "pnccl"),
    "libnvrtc.so.13": "nvrtc", "libnvshmem_host.so.3": "nvshmem"}
ERROR = 999  # CUDA's "unknown error"


def symbols(library, which):
    """{(name, version)} of a library's dynamic symbols."""
    listed = subprocess.run(["nm", "-D", which, library], capture_output=True, text=True, check=False).stdout.splitlines()
    names = (line.split()[-1] for line in listed if line.strip())
    return {(name.partition("@")[0], name.rpartition("@")[2] if "@" in name else "") for name in names}


def owner(name):
    return next((library for library, begins in LIBRARIES.items() if name.startswith(begins)), None)


def make(library, folder, functions):
    code = [".text"]
    versions = collections.defaultdict(list)
    for name, version in sorted(functions):
        code += [f".globl {name}", f".type {name}, @function", f"{name}: movl ${ERROR}, %eax", "ret"]
        versions[version].append(name)
    code.append('.section .note.GNU-stack, "", @progbits')
    script = folder / f"{library}.map"
    script.write_text("".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in versions.items() if version))
    named = [f"-Wl,--version-script={script}"] if script.stat().st_size else []
    subprocess.run(["gcc", "-shared", "-nostdlib", f"-Wl,-soname={library}", *named, "-x", "assembler", "-", "-o", folder / library],
                   input="\n".join(code) + "\n", text=True, check=True)
    script.unlink()


def main():
    packages = pathlib.Path(sys.argv[1])
    folder = packages / "torch/lib"
    for library in LIBRARIES:
        (folder / library).unlink(missing_ok=True)
    own = sorted(folder.glob("*.so*"))
    there = {name for library in [*own, *packages.glob("nvidia/**/*.so*")] for name, _ in symbols(library, "--defined-only")}
    missing = collections.defaultdict(set)
    for library in own:
        for name, version in symbols(library, "--undefined-only"):
            if name not in there and owner(name):
                missing[owner(name)].add((name, version))
    for library in LIBRARIES:
        make(library, folder, missing[library])
    print(f"{sum(map(len, missing.values()))} functions in {len(LIBRARIES)} libraries")


if __name__ == "__main__":
    main()
