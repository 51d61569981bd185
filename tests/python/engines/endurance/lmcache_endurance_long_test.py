"""10,000 operations and more: lmcache_endurance_test.py, with faults all along."""

import unittest

import lmcache_endurance_test


class LmcacheLongEnduranceTest(lmcache_endurance_test.LmcacheEnduranceTest):
    OPERATIONS, COUNT = 5000, 40


if __name__ == "__main__":
    unittest.main()
