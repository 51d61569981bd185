"""Authentication over TCP: tokens, TLS, and the sentence that each refusal ends with."""

import json
import os
import signal
import ssl
import subprocess
import unittest

from certificates import LONG_AGO_DAYS, Authority, client_arguments, node_arguments
from listening import Listening
from program import PROGRAM, Case, require_root, wait_until

LISTEN = "tcp://127.0.0.1:0"
SECRET = "0123456789abcdef"


class SecurityCase(Case):
    def token(self, name, secret=SECRET, mode=0o600):
        path = self.folder / name
        path.write_text(secret)
        path.chmod(mode)
        return path

    def replay(self, address, *arguments):
        return self.run_program("replay", "generate", "--requests", 100, "--page-bytes", 4096, "--local-pages", 10,
                                "--node", address, *arguments, "--json", "-")

    def assert_served(self, node, *arguments):
        result = self.replay(node.address, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["wrong_bytes"], answer["deadlines"]["missed"]), (0, 0))
        self.assertGreater(answer["verdicts"]["ready"], 300)
        status = self.status(node, *arguments)
        self.assertEqual(status["puts"], answer["puts"]["acknowledged"])
        return status

    def assert_refused(self, address, arguments, *texts):
        for result in (self.replay(address, *arguments),
                       self.run_program("status", "--node", address, *arguments)):
            self.assert_fails(result, 1, address, *texts)

    def run_node(self, *arguments, listen=LISTEN):
        return self.run_program("node", "--listen", listen, "--state", self.folder / "n.state", "--pool-bytes", "16MiB",
                                *arguments)


class TokenTest(SecurityCase):
    def test_the_same_on_both_sides(self):
        token = self.token("token", SECRET + "\n")
        node = self.start_node("--page-bytes", 4096, "--token-file", token, listen=LISTEN)
        self.assert_served(node, "--set", f"security.token_file={self.token('copy')}")

    def test_a_client_with_another_or_without(self):
        node = self.start_node("--token-file", self.token("token"), listen=LISTEN)
        other = self.token("other", SECRET.replace("f", "g"))
        self.assert_refused(node.address, ("--token-file", other), "refuses: the client's token is not this node's")
        self.assert_refused(node.address, (), "asks for its token", "--token-file or security.token_file")
        self.assertEqual(self.status(node, "--token-file", self.folder / "token")["clients"], 0)

    def test_a_node_without(self):
        node = self.start_node(listen=LISTEN)
        self.assert_refused(node.address, ("--token-file", self.token("token")),
                            "does not know this client's token", "give both the same file")

    def test_files_that_are_no_token(self):
        for path, texts in (
            (self.token("seen", mode=0o644), ("users other than its owner may use", "run 'chmod 600 ")),
            (self.token("short", SECRET[1:]), ("has 15 bytes", "openssl rand -hex 32")),
            (self.folder / "none", ("No such file", "openssl rand -hex 32")),
        ):
            self.assert_fails(self.run_node("--token-file", path), 2, str(path), *texts)
            for command in ("status", "replay"):
                result = self.run_program(command, "--node", "tcp://127.0.0.1:1", "--token-file", path)
                self.assert_fails(result, 2, str(path), *texts)
        self.assertFalse((self.folder / "n.state").exists(), "nothing has begun")

    def test_a_new_token_is_taken_at_a_hang_up_and_a_client_goes_on(self):
        token = self.token("token")
        node = self.start_node("--page-bytes", 4096, "--token-file", token, listen=LISTEN)
        replay = self.start_program("replay", "generate", "--requests", 100_000, "--page-bytes", 4096, "--node", node.address,
                                    "--token-file", self.token("first"), "--json", "-")
        self.assertTrue(wait_until(lambda: self.status(node, "--token-file", token)["puts"] > 0))
        self.token("token.new", SECRET + "2").rename(token)
        node.send_signal(signal.SIGHUP)
        self.line_saying(node, "has changed: new connections use it")
        self.assertIsNotNone(self.status(node, "--token-file", self.token("second", SECRET + "2")))
        self.assert_refused(node.address, ("--token-file", self.folder / "first"), "is not this node's")
        self.token("token", "short")
        node.send_signal(signal.SIGHUP)
        self.line_saying(node, "The previous one stays in use")
        self.assertGreaterEqual(self.status(node, "--token-file", self.folder / "second")["clients"], 1)
        replay.send_signal(signal.SIGINT)
        self.replay_result(replay, interrupted=True)
        self.assertNotIn("lost", replay.said)

    def test_files_of_root_that_a_group_may_read_and_ones_that_are_closed(self):
        require_root(self)
        self.folder.chmod(0o755)
        state = self.folder / "state"
        state.mkdir()
        os.chown(state, 12345, 12345)
        os.chown(self.token("token", mode=0o440), 0, 2000)
        self.token("closed", mode=0o400)

        def node_of_a_user(token):
            return subprocess.run(["setpriv", "--reuid", "12345", "--regid", "12345", "--groups", "2000", PROGRAM, "node", "--listen",
                                   "tcp://192.0.2.1:0", "--state", state / "n", "--pool-bytes", "1MiB", "--token-file", token],
                                  capture_output=True, text=True, check=False)

        # The node reads the token before it looks at the address.
        self.assertIn("an address of this machine", node_of_a_user(self.folder / "token").stderr)
        refused = node_of_a_user(self.folder / "closed").stderr
        self.assertIn("root:root, mode 0400", refused)
        self.assertNotIn("openssl", refused)

    def test_a_node_for_everybody_says_what_to_do(self):
        for listen in ("tcp://0.0.0.0:0", "tcp://[::]:0"):
            result = self.run_node(listen=listen)
            self.assert_fails(result, 2, f"on {listen} anybody could read and put pages", "--token-file",
                              "openssl rand -hex 32", "security.allow_anyone = true")
        node = self.start_node("--page-bytes", 4096, "--set", "security.allow_anyone=true", listen="tcp://0.0.0.0:0")
        node.address = node.address.replace("0.0.0.0", "127.0.0.1")
        self.assert_served(node)


class TlsTest(SecurityCase):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder)
        self.believed = client_arguments(self.authority.file)

    def start_tls_node(self, pair, *arguments, client_ca=None):
        return self.start_node("--page-bytes", 4096, *node_arguments(pair, client_ca), *arguments, listen=LISTEN)

    def test_with_a_token(self):
        token = ("--token-file", self.token("token"))
        node = self.start_tls_node(self.authority.issue("node"), *token)
        self.assertEqual(self.assert_served(node, *self.believed, *token)["path"], "TCP with TLS")
        self.assert_refused(node.address, self.believed, "asks for its token")

    def test_one_side_alone(self):
        secured = self.start_tls_node(self.authority.issue("node"))
        self.assert_refused(secured.address, (), "refuses: it speaks only TLS: set security.tls = true")
        plain = self.start_node(listen=LISTEN, name="plain")
        self.assert_refused(plain.address, self.believed, "no TLS with the memory node", "does the node speak TLS?")

    def test_certificates_that_are_not_believed(self):
        node = self.start_tls_node(self.authority.issue("node"))
        stranger = Authority(self.folder, "stranger")
        self.assert_refused(node.address, client_arguments(stranger.file), "certificate is refused",
                            "unable to get local issuer certificate", "security.tls_ca")
        self.assert_refused(node.address, ("--set", "security.tls=true"), "certificate is refused", "security.tls_ca")

    def test_a_certificate_of_another_host(self):
        elsewhere = self.start_tls_node(self.authority.issue("elsewhere", "DNS:elsewhere"))
        self.assert_refused(elsewhere.address, self.believed, "certificate is refused: IP address mismatch",
                            "a name that its certificate shows")
        by_name = elsewhere.address.replace("127.0.0.1", "localhost")
        self.assert_refused(by_name, self.believed, "certificate is refused: hostname mismatch",
                            "a name that its certificate shows")

    def test_a_certificate_that_has_expired(self):
        pair = self.authority.issue("old", days=LONG_AGO_DAYS)
        self.assert_fails(self.run_node(*node_arguments(pair)), 2, str(pair[0]), "has expired: renew it")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)  # a server that does not look at its date
        server = Listening(self, lambda connection: context.wrap_socket(connection, server_side=True))
        self.assert_refused(server.address, self.believed, "certificate is refused: certificate has expired",
                            "renew the node's")

    def test_clients_that_must_show_one(self):
        node = self.start_tls_node(self.authority.issue("node"), client_ca=self.authority.file)
        self.assert_refused(node.address, self.believed, "certificate required", "security.tls_certificate")
        stranger = Authority(self.folder, "stranger").issue("foreign")
        self.assert_refused(node.address, client_arguments(self.authority.file, stranger), "unknown ca")
        self.assert_served(node, *client_arguments(self.authority.file, self.authority.issue("client")))


if __name__ == "__main__":
    unittest.main()
