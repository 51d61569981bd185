"""10,000 operations and more: vllm_endurance_test.py, with faults all along."""

import unittest

import vllm_endurance_test


class VllmLongEnduranceTest(vllm_endurance_test.VllmEnduranceTest):
    OPERATIONS, COUNT = 5000, 40


if __name__ == "__main__":
    unittest.main()
