"""The pool of a node in which so many pages stay."""

import unittest

from eviction_agreement import resident_pages, slots_for


class EvictionAgreementTest(unittest.TestCase):
    def test_as_many_pages_stay_as_are_asked_for(self):
        self.assertEqual([resident_pages(slots) for slots in (1, 4, 31, 32, 64)], [1, 4, 31, 31, 61])
        for pages in (1, 4, 31, 61, 5_000, 20_000):
            self.assertEqual(resident_pages(slots_for(pages)), pages)


if __name__ == "__main__":
    unittest.main()
