#!/usr/bin/env python3
"""Measures the cost of recording beside decoding, in float32 on one thread.

The model has random weights in the shape of R1-Distill-Qwen-1.5B's attention, and neither its MLP
nor its vocabulary. Run it by build/record/bin/python, which scripts/setup record makes.
"""

import argparse
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import torch  # noqa: E402
import transformers  # noqa: E402
from farpage import record as recorder  # noqa: E402

CONFIG = transformers.Qwen2Config(hidden_size=1536, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2, intermediate_size=16, vocab_size=64,
                                  max_position_embeddings=131072, eos_token_id=None)


def seconds_of(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@torch.inference_mode()
def plain_ms(model, prompt, tokens):
    """A token, without recording."""
    cache = model.base_model(torch.tensor([prompt]), use_cache=True).past_key_values

    def decode():
        nonlocal cache
        for _ in range(tokens):
            cache = model(torch.tensor([[1]]), past_key_values=cache, use_cache=True).past_key_values

    return 1e3 * seconds_of(decode) / tokens


def recorded(model, prompt, tokens):
    """(ms a recorded token, ms of these that writing takes, bytes a token), without the first step.

    The first step names all pages of the prompt.
    """
    own, spent = recorder.write_step, []

    def timed(*arguments):
        spent.append(seconds_of(lambda: own(*arguments)))

    def run(path, count):
        spent.clear()
        return seconds_of(lambda: recorder.record(model, prompt, path, tokens=count, text_of=lambda _: "a ", name="cost", temperature=0))

    recorder.write_step = timed
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a.trace"
        first_s, first_bytes = run(path, 1), path.stat().st_size
        all_s = run(path, 1 + tokens)
        return 1e3 * (all_s - first_s) / tokens, 1e3 * sum(spent[1:]) / tokens, (path.stat().st_size - first_bytes) / tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=20, help="that are decoded")
    parser.add_argument("--prompt-tokens", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(CONFIG, torch_dtype=torch.float32).eval()
    prompt = [i % 64 for i in range(options.prompt_tokens)]
    record_ms, write_ms, size = recorded(model, prompt, options.tokens)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {options.tokens} tokens after {options.prompt_tokens}")
    print(f"{plain_ms(model, prompt, options.tokens):.0f} ms a token; recorded {record_ms:.0f}, of them {write_ms:.1f} to write it; {size:.0f} bytes")


if __name__ == "__main__":
    main()
