"""The machine's boot files, made once: Debian's kernel, and an initrd with its RDMA modules."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

FIRST_PROCESS = pathlib.Path(__file__).with_name("initrd_init")
KERNEL = "linux-image-amd64"  # depends on the package that holds one
BUSYBOX = "busybox-static"  # the package cannot be installed beside Debian's other busybox
PATIENCE = ["-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=30"]
MODULES = ["crc32_generic", "crc32-pclmul", "rdma_rxe", "rdma_ucm", "virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay",
           "veth", "sch_netem"]
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "cpio": "cpio", "depmod": "kmod", "modprobe": "kmod", "setpriv": "util-linux",
         "apt-cache": "apt", "apt-get": "apt", "dpkg": "dpkg"}


class Failure(Exception):
    """A sentence for people: why there is no machine."""


def find(tool):
    """Its path; users other than root may have no sbin in theirs."""
    path = shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise Failure(f"there is no {tool}: scripts/setup softroce installs it (Debian's package {TOOLS[tool]})")
    return path


def run(tool, *arguments, **options):
    """The tool's standard output."""
    done = subprocess.run([find(tool), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **options)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise Failure(f"{tool} {' '.join(map(str, arguments))} failed: it says {said[-1]}")
    return done.stdout


def kernel_package():
    for line in run("apt-cache", "depends", KERNEL).decode().splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends":
            return name
    raise Failure(f"Debian's package {KERNEL} names no kernel")


def unpack(package, folder):
    downloads = folder / "downloads"
    downloads.mkdir(exist_ok=True)
    run("apt-get", "download", "-qq", *PATIENCE, package, cwd=downloads)
    for archive in downloads.iterdir():
        run("dpkg", "-x", archive, folder)
    shutil.rmtree(downloads)


def unpack_all(folder):
    """The kernel's version."""
    package = kernel_package()
    unpack(package, folder)
    unpack(BUSYBOX, folder)
    return package.removeprefix("linux-image-")


def fetch(folder):
    try:
        return unpack_all(folder)
    except Failure:  # apt's lists are empty, or name what has been replaced
        run("apt-get", "update", "-qq", *PATIENCE)
        return unpack_all(folder)


def modules_in_order(root, version):
    """Paths of the modules and of what they need, each after what it needs itself."""
    run("depmod", "-b", root, version)
    shown = [run("modprobe", "-d", root, "-S", version, "--show-depends", module).decode() for module in MODULES]
    words = [line.split() for text in shown for line in text.splitlines()]
    return [pathlib.Path(path) for path in dict.fromkeys(word[1] for word in words if word[0] == "insmod")]


def pack(folder, archive):
    names = b"\0".join(os.fsencode(path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    archive.write_bytes(run("cpio", "--quiet", "--null", "--create", "--format=newc", "--owner=0:0", input=names, cwd=folder))


def make(into):
    with tempfile.TemporaryDirectory(dir=into.parent, prefix="making-") as scratch:
        root, initrd, made = (pathlib.Path(scratch) / name for name in ("root", "initrd", "made"))
        mount_points = [initrd / name for name in ("host", "changes", "new", "shared", "proc", "sys", "dev")]
        for folder in (root, made, initrd / "bin", initrd / "modules", *mount_points):
            folder.mkdir(parents=True)
        version = fetch(root)
        modules = modules_in_order(root, version)
        for module in modules:
            shutil.copy(module, initrd / "modules")
        (initrd / "modules" / "order").write_text("".join(module.name + "\n" for module in modules))
        shutil.copy(root / "bin" / "busybox", initrd / "bin")
        shutil.copy(FIRST_PROCESS, initrd / "init")
        pack(initrd, made / "initrd")
        shutil.copy(root / "boot" / f"vmlinuz-{version}", made / "kernel")
        # Another machine that started at the same time has made the same files.
        with contextlib.suppress(OSError):
            made.rename(into)


def boot_files(cache):
    """(kernel, initrd) in that folder; the first call downloads some 80 MB."""
    recipe = hashlib.sha256(FIRST_PROCESS.read_bytes() + repr([KERNEL, BUSYBOX, MODULES]).encode()).hexdigest()[:16]
    folder = cache / f"boot-{recipe}"
    if not folder.exists():
        make(folder)
    return folder / "kernel", folder / "initrd"
