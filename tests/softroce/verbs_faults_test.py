#!/usr/bin/env python3
"""A node over verbs that is killed, stopped or started again in the middle of a replay."""

import unittest

from verbs_case import PACE, VerbsCase
from faults import Faults, WarmReads


class FaultsTest(Faults, VerbsCase):
    pace = PACE


class WarmReadsTest(WarmReads, VerbsCase):
    pace = PACE


if __name__ == "__main__":
    unittest.main(verbosity=2)
