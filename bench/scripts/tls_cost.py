"""Measures the cost of TLS: fetches with and without it, and OpenSSL's share of the CPU time."""

import contextlib
import shutil
import subprocess

from measure import Failure, memory_node, run, running

OPENSSL = ("libcrypto", "libssl")
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def make_certificates(folder):
    """Makes a certificate authority for this run alone, and its certificate for 127.0.0.1.

    The files are ca.pem, node.pem and node.key.
    """
    run(["openssl", "req", "-x509", *NEW_KEY, "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem", "-days", "2",
         "-subj", "/CN=farpage bench"])
    run(["openssl", "req", *NEW_KEY, "-keyout", f"{folder}/node.key", "-out", f"{folder}/node.csr", "-subj", "/CN=127.0.0.1"])
    with open(f"{folder}/names", "w", encoding="ascii") as names:
        names.write("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    run(["openssl", "x509", "-req", "-in", f"{folder}/node.csr", "-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key",
         "-CAcreateserial", "-days", "2", "-extfile", f"{folder}/names", "-out", f"{folder}/node.pem"])


def settings(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


@contextlib.contextmanager
def tls_node(program, backend, folder, pool_bytes):
    """(address, process, what its clients need) of a node that speaks TLS only."""
    make_certificates(folder)
    with memory_node(program, backend, folder, "--pool-bytes", str(pool_bytes),
                     *settings(f"security.tls_certificate={folder}/node.pem", f"security.tls_key={folder}/node.key")) as node:
        yield *node, settings("security.tls=true", f"security.tls_ca={folder}/ca.pem")


def parse_openssl_share(text):
    """OpenSSL's share of all samples, from perf report --sort dso -F overhead,dso -t ,"""
    total = ours = 0.0
    for line in text.splitlines():
        overhead, _, library = line.partition(",")
        if line.startswith("#") or not overhead.strip().endswith("%"):
            continue
        share = float(overhead.strip().rstrip("%"))
        total += share
        ours += share if library.strip().startswith(OPENSSL) else 0
    if total == 0:
        raise Failure("perf took no samples")
    return ours / total


def openssl_share(program, arguments, node, folder):
    """OpenSSL's share of the CPU time of a node, and of a client that fills it and fetches."""
    if shutil.which("perf") is None:
        raise Failure("perf is not there (Debian's linux-perf)")
    samples = f"{folder}/perf.data"
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with running([program, "bench", *arguments], **silent) as client:
        command = ["perf", "record", "--freq", "999", "--output", samples, "--pid", f"{node.pid},{client.pid}"]
        with running(command, **silent):
            if client.wait() != 0:
                raise Failure("the client failed while perf watched it")
    return parse_openssl_share(run(["perf", "report", "--input", samples, "--stdio", "--sort", "dso", "--fields", "overhead,dso",
                                    "--field-separator", ","]))


def openssl_sentence(program, arguments, node, folder):
    try:
        return f"{100 * openssl_share(program, arguments, node, folder):.0f}% of the CPU time of node and client is in OpenSSL"
    except Failure as failure:
        return f"the share of OpenSSL in the CPU time is not known: {failure}"
