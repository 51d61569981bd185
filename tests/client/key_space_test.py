"""docs/formats/keys.md agrees with itself: its words and its Python give its test vectors."""

import hashlib
import pathlib
import re
import unittest
from urllib.parse import unquote_to_bytes

DOCUMENT = (pathlib.Path(__file__).resolve().parents[2] / "docs/formats/keys.md").read_text()
VECTOR = re.compile(r"^\| `(\S+=.*)` \| `(\S+)` \| (\d+) \| `([0-9a-f]{64})` \| `([0-9a-f]{32})` \|$", re.MULTILINE)
PYTHON = {}
exec(re.search(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)[1], PYTHON)


def fact(text):
    name, _, value = text.partition("=")
    return unquote_to_bytes(name), unquote_to_bytes(value)


def vectors():
    """(facts as pairs, engine key, namespace, key) of each row."""
    for facts, engine_key, times, namespace, key in VECTOR.findall(DOCUMENT):
        yield [fact(text) for text in facts.split(" ")], unquote_to_bytes(engine_key) * int(times), namespace, key


class KeysDocument(unittest.TestCase):
    def test_its_python_gives_its_vectors(self):
        for facts, engine_key, namespace, key in vectors():
            with self.subTest(facts=facts, engine_key=engine_key):
                self.assertEqual(len(dict(facts)), len(facts))
                self.assertEqual(PYTHON["namespace"](dict(facts)).hex(), namespace)
                self.assertEqual(PYTHON["page_key"](dict(facts), engine_key).hex(), key)

    def test_its_canonical_text_is_hashed_to_the_namespace(self):
        shown = re.search(r"^```\n([0-9a-f\s]+)```", DOCUMENT, re.MULTILINE)[1]
        hashed = hashlib.sha256(bytes.fromhex(shown)).digest()
        self.assertEqual(PYTHON["namespace"]({b"empty": b"", b"a": b"bc"}), hashed)

    def test_its_vectors_have_the_odd_cases(self):
        rows = list(vectors())
        sets = [facts for facts, *_ in rows]
        values = [value for facts in sets for _, value in facts]
        lengths = {len(engine_key) for _, engine_key, *_ in rows}
        self.assertIn(b"", values)
        self.assertTrue(any(re.search(rb"[=,;|]", value) and b"\n" in value for value in values))
        self.assertTrue(any(not value.isascii() and value.decode(errors="ignore").encode() == value for value in values))
        self.assertLessEqual({0, 1000}, lengths)
        self.assertTrue(any(one != other and sorted(one) == sorted(other) for one in sets for other in sets))

    def test_other_facts_or_engine_keys_have_other_keys(self):
        named = {(frozenset(facts), engine_key) for facts, engine_key, *_ in vectors()}
        self.assertEqual(len({key for *_, key in vectors()}), len(named))


if __name__ == "__main__":
    unittest.main()
