"""10,000 operations and more: sglang_endurance_test.py, with faults all along."""

import unittest

import sglang_endurance_test


class SglangLongEnduranceTest(sglang_endurance_test.SglangEnduranceTest):
    OPERATIONS, COUNT = 5000, 40


if __name__ == "__main__":
    unittest.main()
