"""Tokens and configurations of nodes with tenants: what their tests share."""

from program import Case

LISTEN = "tcp://127.0.0.1:0"
REPLAY = ("replay", "generate", "--requests", 100, "--page-bytes", 4096, "--local-pages", 10)


class Tenants(Case):
    """Each test has tokens of two tenants, and one of the node's own."""

    def setUp(self):
        super().setUp()
        self.tokens = {name: self.token(name, f"the token of {name}, for this test") for name in ("own", "a", "b")}

    def token(self, name, secret):
        path = self.folder / f"{name}.token"
        path.write_text(secret)
        path.chmod(0o600)
        return path

    def config(self, *tenants):
        path = self.folder / "node.toml"
        path.write_text("".join(
            f'[tenant.{name}]\ntoken_file = "{token}"\nquota_bytes = "{quota}"\n' for name, token, quota in tenants))
        return path

    def two(self, b="16MiB"):
        return self.config(("a", self.tokens["a"], "8MiB"), ("b", self.tokens["b"], b))

    def as_tenant(self, name):
        return ("--token-file", self.tokens[name])
