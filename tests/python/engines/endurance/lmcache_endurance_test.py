"""LMCache's adapters, one of each form in one process, over a node that comes and goes
(endurance_case.py). Runs in an environment with LMCache (scripts/test-engines)."""

import unittest

import endurance_case
from endurance_case import BATCH, LOAD_S, STORE_S, TRASH, content
from lmcache_test import CLASSES, HALF, L2, key
from truth import assert_bytes


class Subject:
    """The first half of L1 is for stores, and the second for loads."""

    hides_failed_stores = True

    def __init__(self, case, form, address):
        self.l2 = L2(case, form, address, timeout_ms=1000 * LOAD_S, store_timeout_ms=1000 * STORE_S, start_ms=100)
        self.l2.memory[:] = TRASH

    def store(self, numbers):
        l2 = self.l2
        for place, number in enumerate(numbers):
            l2.memory[place] = content(number)
        is_good = l2.store([key(number) for number in numbers])
        l2.memory[:HALF] = TRASH  # nobody reads it any more
        return [is_good] * len(numbers)

    def load(self, numbers):
        l2 = self.l2
        assert_bytes((l2.memory[HALF:] == TRASH).all(), "memory that a load wrote after it had ended")
        task = l2.adapter.submit_load_task([key(number) for number in numbers], l2.objects(range(HALF, HALF + len(numbers))))
        bitmap = l2.until(l2.adapter.get_load_event_fd(), lambda: l2.adapter.query_load_result(task))
        loaded = [bitmap.test(place) for place in range(len(numbers))]
        for place, number in enumerate(numbers):
            assert_bytes(not loaded[place] or (l2.memory[HALF + place] == content(number)).all(), number)
        l2.memory[HALF:] = TRASH
        return loaded

    def exists(self, numbers):
        return self.l2.lookup([key(number) for number in numbers])

    def evict(self):
        """It keeps none."""

    def remove(self, numbers):
        def failures():
            return sum(count for what, count in self.l2.connector.counts.items() if what.startswith("delete "))

        before = failures()
        self.l2.adapter.delete([key(number) for number in numbers])
        return failures() == before


class LmcacheEnduranceTest(endurance_case.EnduranceCase):
    def subjects(self, address):
        assert BATCH <= HALF
        self.opened = [Subject(self, form, address) for form in CLASSES]
        return self.opened

    def close_all(self):
        for subject in self.opened:
            subject.l2.close()

    def regions(self):
        return max(len(subject.l2.connector._connection.client._regions._sorted[1]) for subject in self.opened)


if __name__ == "__main__":
    unittest.main()
