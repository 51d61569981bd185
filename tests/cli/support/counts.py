"""The counts of a replay, over any backend, and an independent model of them."""

import collections
import json


def model(requests, local_pages):
    """A model of an LRU of local pages and a node that forgets nothing, one page at a time."""
    local, stored = collections.OrderedDict(), set()
    counts = collections.Counter()
    for page in (page for request in requests for page in request):
        counts["demanded"] += 1
        if page in local:
            local.move_to_end(page)
            counts["local"] += 1
            continue
        counts["ready" if page in stored else "miss"] += 1
        stored.add(page)
        local[page] = True
        if len(local) > local_pages:
            local.popitem(last=False)
    return counts


class Counts:
    """For a Case."""

    def assert_counts(self, answer, requests, local_pages):
        expected = model(requests, local_pages)
        self.assertEqual(answer["requests"], len(requests))
        self.assertEqual(answer["pages_demanded"], expected["demanded"])
        self.assertEqual(answer["local_hits"], expected["local"])
        self.assertEqual(answer["fetched"], expected["ready"] + expected["miss"])
        self.assertEqual(answer["verdicts"]["ready"], expected["ready"])
        self.assertEqual(answer["verdicts"]["recompute_by_reason"]["miss"], expected["miss"])
        self.assertEqual(answer["verdicts"]["recompute"], expected["miss"])
        self.assertEqual(answer["puts"]["acknowledged"], expected["miss"], answer["puts"])
        self.assertEqual((answer["wrong_bytes"], answer["local_wrong_bytes"]), (0, 0))
        self.assert_in_time(answer["deadlines"])

    def replay(self, *arguments, requests=300, local_pages=100, place=None):
        """Of the same synthetic trace each time."""
        result = self.run_program("replay", "generate", "--seed", 7, "--requests", requests, "--page-bytes", 4096,
                                  "--local-pages", local_pages, "--json", "-", *arguments, place=place)
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["wrong_bytes"], answer["local_wrong_bytes"]), (0, 0))
        self.assert_in_time(answer["deadlines"])
        return answer

    def counts(self, *arguments, **options):
        answer = self.replay(*arguments, **options)
        return {key: answer[key] for key in ("pages_demanded", "local_hits", "fetched", "fetches", "verdicts")}
