"""The scripts read peers' output right; people read the expected figures from recorded output."""

import contextlib
import json
import unittest
from unittest import mock

from recording import recorded

import idle_cost
import peer_iperf3
import peer_perftest
import peer_redis
import peer_ucx
import tls_cost
from measure import Failure


def distribution(*points):
    lines = [f"0.000% <= {ms:.3f} milliseconds (cumulative count {count})" for ms, count in points]
    return "\n".join([*lines, "", "Cumulative distribution of latencies:", "99% <= 9.103 milliseconds (cumulative count 9)"])


class RedisTest(unittest.TestCase):
    def test_rate(self):
        self.assertEqual(peer_redis.parse_rate(recorded("redis_get.csv")), 24891.10)

    def test_no_rate(self):
        with self.assertRaisesRegex(Failure, "Connection refused"):
            peer_redis.parse_rate("Could not connect to Redis at 127.0.0.1:1: Connection refused\n")

    def test_p50_lies_within_the_step_that_holds_it(self):
        # 9,322 of 40,000 took up to 31 µs, 33,283 up to 39 µs: the 20,000th is 0.4456 of the way
        # from 32 to 40.
        self.assertAlmostEqual(peer_redis.parse_p50_us(recorded("redis_get.txt")), 35.565, places=3)

    def test_p50_in_the_first_step(self):
        self.assertAlmostEqual(peer_redis.parse_p50_us(distribution((0.039, 100))), 36)

    def test_p50_over_several_steps(self):
        self.assertAlmostEqual(peer_redis.parse_p50_us(distribution((0.031, 10), (0.047, 90), (0.055, 100))), 40)

    def test_no_distribution(self):
        with self.assertRaises(Failure):
            peer_redis.parse_p50_us("")

    def test_info(self):
        info = peer_redis.parse_info("# Stats\r\nkeyspace_hits:80000\r\nkeyspace_misses:0\r\n")
        self.assertEqual((int(info["keyspace_hits"]), int(info["keyspace_misses"])), (80000, 0))


class RedisGetTest(unittest.TestCase):
    """GETs that found nothing are no figure."""

    def get(self, hits, misses):
        server = peer_redis.Redis(1, 100, 64)
        answers = [{"keyspace_hits": "5", "keyspace_misses": "7"},
                   {"keyspace_hits": str(5 + hits), "keyspace_misses": str(7 + misses)}]
        server.info = lambda: answers.pop(0)
        run, peer_redis.run = peer_redis.run, lambda command: "output"
        try:
            return server.get(1000, 1, 1)
        finally:
            peer_redis.run = run

    def test_every_one_found_its_value(self):
        self.assertEqual(self.get(1000, 0), "output")

    def test_one_found_none(self):
        with self.assertRaisesRegex(Failure, "999 found a value and 1 did not"):
            self.get(999, 1)

    def test_redis_did_not_see_them_all(self):
        with self.assertRaises(Failure):
            self.get(900, 0)


class UcxTest(unittest.TestCase):
    def test_result(self):
        result = peer_ucx.parse(recorded("ucp_get.txt"))
        self.assertEqual((result.p50_us, result.gets_per_s), (14.865, 2050))
        # 128.14 of its MB a second, which are 2^20 bytes: as many as 2,050 messages of 64 KiB.
        self.assertAlmostEqual(result.bytes_per_s, 134.36e6, delta=0.01e6)
        self.assertAlmostEqual(result.bytes_per_s / 65536, result.gets_per_s, delta=1)

    def test_no_result(self):
        with self.assertRaisesRegex(Failure, "no route"):
            peer_ucx.parse("connect() failed: no route")


class Iperf3Test(unittest.TestCase):
    def test_bytes_that_arrived(self):
        self.assertAlmostEqual(peer_iperf3.parse(recorded("iperf3.json")), 2928017408 / 2.015693, delta=1)

    def test_an_error(self):
        with self.assertRaisesRegex(Failure, "unable to connect"):
            peer_iperf3.parse(json.dumps({"error": "unable to connect to server"}))


class PerftestTest(unittest.TestCase):
    LATENCY, BANDWIDTH = "t_typical[usec]", "BW average[MB/sec]"

    def test_latency(self):
        self.assertEqual(peer_perftest.parse(recorded("ib_read_lat.txt"), self.LATENCY), 1647.78)

    def test_bandwidth(self):
        self.assertEqual(peer_perftest.parse(recorded("ib_read_bw.txt"), self.BANDWIDTH), 30.71)
        self.assertEqual(peer_perftest.parse(recorded("ib_write_bw.txt"), self.BANDWIDTH), 32.34)

    def test_its_mb_are_2_to_the_20_bytes(self):
        millions_of_messages = peer_perftest.parse(recorded("ib_read_bw.txt"), "MsgRate[Mpps]")
        self.assertAlmostEqual(30.71 * peer_perftest.MIB, millions_of_messages * 1e6 * 65536, delta=0.001 * 32e6)

    def test_no_result(self):
        text = recorded("ib_read_lat.txt")
        for cut in ("", "Couldn't connect to 10.9.0.2:18515", text[:text.index(" 65536 ")]):
            with self.assertRaisesRegex(Failure, "perftest gave no t_typical"):
                peer_perftest.parse(cut, self.LATENCY)

    def test_a_figure_that_is_none(self):
        for figure in ("inf", "nan", "0.00", "-1.5"):
            with self.assertRaisesRegex(Failure, f"perftest gave {figure} as its BW average"):
                peer_perftest.parse(recorded("ib_read_bw.txt").replace("30.71", figure), self.BANDWIDTH)


class PerftestAttemptsTest(unittest.TestCase):
    """With a perftest that gives no figure the first few times."""

    PATH = peer_perftest.Path("rxe0", "rxe2", "10.9.0.2")

    def measure(self, outputs):
        outputs = iter(outputs)
        ports = set()

        @contextlib.contextmanager
        def serving(command, port):
            ports.add(port)
            yield

        with mock.patch.object(peer_perftest, "run", lambda command, timeout_s: next(outputs)), \
                mock.patch.object(peer_perftest, "serving", serving), \
                mock.patch.object(peer_perftest, "free_port", lambda: len(ports) + 1):
            return peer_perftest.read_bytes_per_s(self.PATH, 65536, 1000, 16), len(ports)

    def test_the_first_that_has_a_figure_counts(self):
        good = recorded("ib_read_bw.txt")
        self.assertEqual(self.measure(["", good.replace("30.71", "inf"), good, ""]), (30.71 * peer_perftest.MIB, 3))

    def test_it_gives_up(self):
        with self.assertRaisesRegex(Failure, "perftest gave no BW average"):
            self.measure([""] * peer_perftest.ATTEMPTS)


class TlsTest(unittest.TestCase):
    def test_share_of_openssl(self):
        self.assertAlmostEqual(tls_cost.parse_openssl_share(recorded("perf_report.txt")), 0.4955, places=3)

    def test_no_samples(self):
        with self.assertRaisesRegex(Failure, "no samples"):
            tls_cost.parse_openssl_share("# Total Lost Samples: 0\n")


class MemoryTest(unittest.TestCase):
    def test_smaps_rollup(self):
        text = ("55d0-7ffc ---p 00000000 00:00 0    [rollup]\nRss:              534904 kB\nPss:              528733 kB\n"
                "Pss_Anon:           1340 kB\n")
        self.assertEqual(idle_cost.parse_memory(text),
                         {"Rss": 534904 * 1024, "Pss": 528733 * 1024, "Pss_Anon": 1340 * 1024})


if __name__ == "__main__":
    unittest.main()
