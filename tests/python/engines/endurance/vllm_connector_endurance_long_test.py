"""10,000 operations and more: vllm_connector_endurance_test.py, with faults all along."""

import unittest

import vllm_connector_endurance_test


class BlocksLongEnduranceTest(vllm_connector_endurance_test.BlocksEnduranceTest):
    OPERATIONS, COUNT = 2500, 40


class LayersLongEnduranceTest(vllm_connector_endurance_test.LayersEnduranceTest):
    OPERATIONS, COUNT = 2500, 40


if __name__ == "__main__":
    unittest.main()
