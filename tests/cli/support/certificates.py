"""A CA and what it signs, made with openssl as an operator makes them."""

import subprocess

LONG_AGO_DAYS = -1


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    def __init__(self, folder, name="ca"):
        self.folder = folder
        self.file, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-days", 10, "-keyout", self.key, "-out", self.file)

    def issue(self, name, hosts="IP:127.0.0.1,DNS:localhost", days=10):
        """(certificate, key) of a peer that has these names."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={hosts}\n")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key, "-CAcreateserial", "-days", days,
                "-extfile", extensions, "-out", certificate)
        return certificate, key


def node_arguments(pair, client_ca=None):
    arguments = ["--set", f"security.tls_certificate={pair[0]}", "--set", f"security.tls_key={pair[1]}"]
    return arguments + (["--set", f"security.tls_client_ca={client_ca}"] if client_ca else [])


def client_arguments(ca, pair=None):
    arguments = ["--set", "security.tls=true", "--set", f"security.tls_ca={ca}"]
    if pair:
        arguments += ["--set", f"security.tls_certificate={pair[0]}", "--set", f"security.tls_key={pair[1]}"]
    return arguments
