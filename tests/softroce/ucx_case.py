"""Code that the tests of farpage over UCX's rc share."""

from verbs_case import VerbsCase

DEADLINE = ("--deadline-ms", 10_000)


def over_rc(device):
    return ("--backend", "ucx", "--set", "ucx.transports=rc", "--set", f"ucx.devices={device}:1")


class UcxCase(VerbsCase):
    node_place = client_place = over_rc("rxe0")

    def start_patient_node(self, **options):
        """A node that gives up no read, as a new channel would cost UCX seconds in the machine."""
        return self.start_node("--page-bytes", 4096, "--set", "node.reuse_ms=5000", "--set", "ucx.trusted_clients=true",
                               **options)
