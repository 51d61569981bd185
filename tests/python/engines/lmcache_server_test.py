"""LMCache's server with Farpage as its L2, driven by its own `lmcache bench server` on a CPU. Runs
in an environment with LMCache (scripts/test-engines)."""

import re
import unittest

from lmcache_server import ServerCase
from program import wait_until
from truth import assert_bytes

REQUESTS, CHUNK_TOKENS = 3, 256


class LmcacheServerTest(ServerCase):
    def setUp(self):
        super().setUp()
        self.node = self.start_node("--page-bytes", "4MiB", pool="512MiB")

    def server_with(self, name, **params):
        return self.server(name, self.adapter(self.node, chunk_tokens=CHUNK_TOKENS, **params), CHUNK_TOKENS)

    def bench(self, server):
        """({request: checksum of what it retrieved}, chunks found by the first look-ups)"""
        said = self.run_lmcache(server, "bench", "server", "--mode", "cpu", "--rpc-url", f"tcp://localhost:{server.port}", "--url", server.url,
                                "--num-tokens", "512", "--kvcache-shape-spec", "(2,256,16,4,64):float32:8", "--end", str(REQUESTS),
                                "--interval", "0.02")
        checksums = dict(re.findall(r"\[seq (\d+)/\w+\] CHECKSUM: (\w+)", said))
        return checksums, [int(found) for found in re.findall(r"/cold\] LOOKUP: (\d+)/", said)]

    def assert_found(self, server, wanted):
        checksums, found = self.bench(server)
        self.assertEqual(found, [2] * REQUESTS)
        assert_bytes(checksums == wanted, f"some: their checksums are {checksums}, and {wanted} are right")

    def test_what_left_l1_comes_back_and_servers_share_it(self):
        one, two = self.server_with("one"), self.server_with("two")
        checksums, found = self.bench(one)
        self.assertEqual((len(checksums), len(set(checksums.values())), found), (REQUESTS, REQUESTS, [0] * REQUESTS))
        self.assertTrue(wait_until(lambda: self.pages(self.node) == 2 * REQUESTS))
        self.clear(one)
        self.assert_found(one, checksums)
        self.assertIn("(0 L1, 2 L2)", one.log.read_text())
        self.assert_found(two, checksums)
        self.assertIn("adapter_params lacks model, engine, layout, which LMCache does not tell", one.log.read_text())
        self.end_server(one)
        other = self.server_with("other", dtype="bfloat16")
        self.assertEqual(self.bench(other)[1], [0] * REQUESTS)
        self.node.kill()
        self.node.wait()
        self.clear(two)
        checksums_without, found = self.bench(two)
        self.assertEqual((len(checksums_without), found), (REQUESTS, [0] * REQUESTS))


if __name__ == "__main__":
    unittest.main()
