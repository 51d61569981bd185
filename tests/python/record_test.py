"""The recorder of models: its traces of small ones agree with their own queries and keys."""

import collections
import contextlib
import copy
import io
import os
import pathlib
import subprocess
import sys
import unittest

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
sys.path[:0] = [str(PYTHON), str(PYTHON.parent / "tests/cli/support")]
from farpage import access_trace  # noqa: E402
from program import Case, skip_or_fail  # noqa: E402

try:
    import tokenizers
    import torch
    import transformers
    from farpage.attended_pages import UnrecordableError
    from farpage.record import record, tell
    from tiny_models import HEADS, LAYERS, VOCABULARY, Truth, tiny
except ImportError as error:
    MISSING = f"{error}: scripts/setup record installs it"
else:
    MISSING = None

PAGE_TOKENS, PAGES_PER_HEAD, STEPS = 4, 5, 40
PROMPT = [7, 3, 3, 19, 44, 8, 21, 2, 30, 30, 1, 12, 40, 33, 5, 6, 17, 28, 9, 11, 23]
BREAK_TOKENS = range(0, 50, 5)


def text_of(tokens):
    return "".join("\n\n" if token in BREAK_TOKENS else "zebra " for token in tokens)


class RecordTest(Case):
    def setUp(self):
        if MISSING:
            skip_or_fail(self, MISSING)
        super().setUp()
        self.trace = self.folder / "a.trace"

    def record(self, model, *, tokens=STEPS, path=None, prompt=PROMPT, **options):
        return record(model, prompt, path or self.trace, tokens=tokens, text_of=text_of, name="tiny", page_tokens=PAGE_TOKENS, pages_per_head=PAGES_PER_HEAD, **options)

    def steps(self):
        """{step: {head: [(page of the head, values)]}}; it checks the writer's order on the way."""
        found, names, last = collections.defaultdict(lambda: collections.defaultdict(list)), [], (-1, -1, -1)
        pages_of = collections.Counter()
        for access in access_trace.Reader(self.trace):
            if access.page == len(names):
                # The writer names each page when it is the newest, or in order with the prompt.
                names.append(pages_of[access.head])
                pages_of[access.head] += 1
            place = (access.step, access.head, names[access.page])
            self.assertGreater(place, last)
            last = place
            found[access.step][access.head].append((names[access.page], access.values))
        return found

    def assert_exact(self, model):
        decoded = self.record(model, temperature=0)
        truth = Truth(model, PROMPT + decoded)
        steps = self.steps()
        self.assertEqual(list(steps), list(range(STEPS)))
        for step, heads in steps.items():
            position = len(PROMPT) - 1 + step
            self.assertEqual(list(heads), list(range(LAYERS * truth.kv_heads)))
            self.assertEqual(decoded[step], int(truth.logits[position].argmax()))
            for head, accesses in heads.items():
                self.assert_head(truth, step, position, head, dict(accesses))

    def assert_head(self, truth, step, position, head, accesses):
        masses = truth.masses(head, position, PAGE_TOKENS)
        newest = len(masses) - 1
        self.assertEqual(len(accesses), len(masses) if step == 0 else min(PAGES_PER_HEAD, len(masses)))
        self.assertIn(newest, accesses)
        chosen = [masses[page] for page in accesses if page != newest]
        others = [mass for page, mass in enumerate(masses) if page not in accesses]
        self.assertGreaterEqual(min(chosen, default=1), max(others, default=0) - 1e-5)
        self.assertLessEqual(sum(values["mass"] for values in accesses.values()), 1 + 1e-5)
        likely = torch.softmax(truth.logits[position], 0)
        first, second = truth.logits[position].sort(descending=True).values[:2].tolist()
        for page, values in accesses.items():
            self.assertAlmostEqual(values["mass"], masses[page], delta=1e-5)
            self.assertAlmostEqual(values["score"], truth.score(head, position, page, PAGE_TOKENS), delta=1e-3)
            self.assertAlmostEqual(values["similarity"], truth.similarity(head, position) if step > 0 else 0, delta=1e-4)
            self.assertAlmostEqual(values["entropy"], -float((likely * likely.log()).sum()), delta=1e-4)
            self.assertAlmostEqual(values["margin"], first - second, delta=1e-4)

    def test_masses_of_a_head_for_each_query_head(self):
        self.assert_exact(tiny())

    def test_masses_of_a_head_that_query_heads_share(self):
        self.assert_exact(tiny("Qwen2", kv_heads=2))

    def test_a_prompt_of_one_token(self):
        model = tiny(kv_heads=1)
        decoded = self.record(model, prompt=[4], tokens=9, temperature=0)
        truth = Truth(model, [4, *decoded])
        for step, heads in self.steps().items():
            for head, accesses in heads.items():
                self.assert_head(truth, step, step, head, dict(accesses))

    def test_paragraphs_are_marked(self):
        decoded = self.record(tiny(), temperature=3)
        expected, begins = [], True
        for token in decoded:
            is_break = token in BREAK_TOKENS
            expected.append(1 if begins and not is_break else 0)
            begins = is_break or begins and not expected[-1]
        self.assertIn(0, expected)
        self.assertGreater(sum(expected), 1)
        for step, heads in self.steps().items():
            self.assertEqual({values["mark"] for accesses in heads.values() for _, values in accesses}, {expected[step]})

    def test_a_seed_gives_the_same_bytes_again(self):
        again, other = self.folder / "again.trace", self.folder / "other.trace"
        decoded = self.record(tiny(), temperature=1, seed=5)
        self.assertEqual(self.record(tiny(), temperature=1, seed=5, path=again), decoded)
        self.assertNotEqual(self.record(tiny(), temperature=1, seed=6, path=other), decoded)
        self.assertEqual(self.trace.read_bytes(), again.read_bytes())

    def test_it_stops_with_the_answer(self):
        model = tiny()
        decoded = self.record(model, temperature=0)
        model.generation_config.eos_token_id = [VOCABULARY - 1, decoded[5]]
        self.assertEqual(self.record(model, temperature=0), decoded[:decoded.index(decoded[5]) + 1])

    def test_what_cannot_be_recorded_is_refused(self):
        with self.assertRaisesRegex(UnrecordableError, "context of 256: record at most 235"):
            self.record(tiny(), tokens=236)
        with self.assertRaisesRegex(UnrecordableError, "no token"):
            self.record(tiny(), prompt=[])
        blind = tiny()
        for layer in blind.model.layers:
            layer.self_attn.config = copy.deepcopy(blind.config)
        with self.assertRaisesRegex(UnrecordableError, "does not call transformers' attention functions"):
            self.record(blind)

    def assert_unrecordable(self, model, *words):
        with self.assertRaises(UnrecordableError) as refused:
            self.record(model)
        message = str(refused.exception)
        for word in (type(model).__name__, *words):
            self.assertIn(word, message)
        self.assertNotIn("\n", message)
        self.assertFalse(self.trace.exists(), "it is known before there is a trace")

    def test_an_architecture_that_does_something_else_is_told_whichever_it_is(self):
        for kind in ("Falcon", "GPTNeoX", "Bloom", "Mamba", "Rwkv"):
            with self.subTest(kind):
                config = getattr(transformers, kind + "Config")(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                                                attention_hidden_size=32, bos_token_id=1, eos_token_id=2)
                self.assert_unrecordable(transformers.AutoModelForCausalLM.from_config(config).eval(), "transformers")

    def test_an_error_of_a_models_own_is_told(self):
        broken = tiny()
        broken.model.layers[1].mlp.forward = lambda *_: {}["no such key"]
        self.assert_unrecordable(broken, "KeyError", "no such key")
        silent = tiny()
        silent.lm_head.forward = lambda *_: 1 / 0
        self.assert_unrecordable(silent, "ZeroDivisionError")

    def test_a_layer_that_does_not_attend_is_told(self):
        mixed = tiny()
        mixed.model.layers[1].self_attn.config = copy.deepcopy(mixed.config)
        self.assert_unrecordable(mixed, f"attends in 2 of its {LAYERS} layers")

    def test_output_that_cannot_be_written_is_told(self):
        class Full(io.StringIO):
            def flush(self):
                raise OSError(28, "No space left on device")
        before = os.dup(1)
        try:
            with contextlib.redirect_stdout(Full()), self.assertRaisesRegex(SystemExit, "cannot write .*No space left"):
                tell("12 steps")
        finally:
            os.dup2(before, 1)
            os.close(before)

    def test_a_window_that_slides_ends_the_recording(self):
        window = tiny("Mistral", sliding_window=len(PROMPT) + 3)
        self.assertEqual(len(self.record(window, tokens=4)), 4)
        with self.assertRaisesRegex(UnrecordableError, "looks back at 24 of 25 tokens"):
            self.record(window, tokens=5)
        with self.assertRaisesRegex(access_trace.TraceError, "cut off"):
            list(access_trace.Reader(self.trace))

    def saved(self):
        """A folder with a model, and a tokenizer of words whose template ends the question."""
        folder = self.folder / "model"
        tiny(kv_heads=2).save_pretrained(folder)
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{token}": token for token in range(VOCABULARY)}, unk_token="w0"))
        words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words)
        tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %} w49"
        tokenizer.save_pretrained(folder)
        return folder

    def run_recorder(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PYTHON), os.environ.get("PYTHONPATH", "")])}
        return subprocess.run([sys.executable, "-B", "-m", "farpage.record", *map(str, arguments)], capture_output=True, text=True, cwd=self.folder, env=environment, check=False)

    def test_the_program_records_what_the_other_programs_read(self):
        (self.folder / "question").write_text("w7 w3 w19 " * 9)
        options = ("--model", self.saved(), "--prompt-file", "question", "--tokens", 60, "--output", self.trace)
        result = self.run_recorder(*options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("a.trace: 60 steps, ", result.stdout)
        reader = access_trace.Reader(self.trace)
        self.assertFalse(reader.synthetic)
        self.assertIn("28 tokens of prompt, pages of 16", reader.name)
        self.assertEqual(reader.heads, LAYERS * HEADS // 2)
        pages = (28 + 60 - 1 + 15) // 16 * reader.heads
        self.assertEqual(len({access.page for access in reader}), pages)
        replayed = self.run_program("policies", self.trace, "--format", "access", "--policy", "h2o,lru", "--budget", "12")
        self.assertEqual(replayed.returncode, 0, replayed.stderr)
        self.assertIn("h2o", replayed.stdout)
        analysed = self.run_program("analyse", self.trace, "--format", "access")
        self.assertEqual(analysed.returncode, 0, analysed.stderr)

    def test_the_program_says_what_is_wrong(self):
        (self.folder / "question").write_text("w7")
        result = self.run_recorder("--model", self.folder / "none", "--prompt-file", "question", "--tokens", 1, "--output", self.trace)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("farpage.record: ", result.stderr.splitlines()[-1])
        self.assertEqual(self.run_recorder("--model", "x", "--prompt-file", "question", "--tokens", 0, "--output", self.trace).returncode, 2)


class WithoutTorchTest(unittest.TestCase):
    def test_it_says_how_to_install_it(self):
        script = "import sys; sys.modules['torch'] = None; import farpage.record"
        result = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, cwd=PYTHON, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("pip install", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
