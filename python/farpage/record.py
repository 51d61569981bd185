"""Decodes with a causal language model, and writes what pages its heads attend to as an access trace: docs/record.md."""

import argparse
import pathlib
import sys

INSTALL = "scripts/setup record installs them into build/record; elsewhere, in a virtual environment: pip install torch 'transformers>=4.48'"
try:
    import torch
    import transformers
    from farpage.attended_pages import AttendedPages, UnrecordableError
except ImportError as error:
    sys.exit(f"farpage.record: {error}: it needs PyTorch and transformers from 4.48 on: {INSTALL}")
from farpage.access_trace import Writer
from farpage.marks import Marks

COLUMNS = ("mass", "score", "similarity", "entropy", "margin", "mark")


def check_length(model, prompt, tokens):
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if not prompt:
        raise UnrecordableError("the prompt has no token")
    if context and len(prompt) + tokens > context:
        raise UnrecordableError(f"{len(prompt)} tokens of the prompt and {tokens} more are beyond the model's context of {context}: record at most {max(0, context - len(prompt))}")


def drawn(logits, temperature, generator):
    if temperature == 0:
        return int(logits.argmax())
    return int(torch.multinomial(torch.softmax(logits / temperature, 0), 1, generator=generator))


def next_token_values(logits):
    """Of the distribution as the model has it, whatever the temperature."""
    likely = torch.log_softmax(logits, 0)
    first, second = logits.topk(2).values
    return {"entropy": max(0.0, float(torch.special.entr(likely.exp()).sum())), "margin": float(first - second)}


def ends_answer(model, token):
    ends = model.generation_config.eos_token_id
    return token in (ends if isinstance(ends, list) else [ends])


@torch.inference_mode()
def record(model, prompt, path, *, tokens, text_of, name, page_tokens=16, pages_per_head=24, temperature=0.6, seed=1):
    """Decodes up to so many tokens after `prompt`, a list of them, and returns them. `text_of` makes text of such a list.

    Each is a step of the trace: the forward of the token before it. The first step reads all pages of the prompt.
    """
    check_length(model, prompt, tokens)
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    generator, marks, decoded = torch.Generator().manual_seed(seed), Marks(text_of), []

    def batch(tokens):
        return torch.tensor([tokens], device=model.device)

    with Writer(path, name, synthetic=False, layers=config.num_hidden_layers, heads=heads, columns=COLUMNS) as trace:
        cache = model.base_model(batch(prompt[:-1]), use_cache=True).past_key_values if len(prompt) > 1 else None
        last = prompt[-1]
        with AttendedPages(model, page_tokens) as attended:
            for step in range(tokens):
                attended.begin(len(prompt) + step, pages_per_head if step > 0 else len(prompt))
                output = model(batch([last]), past_key_values=cache, use_cache=True)
                if not attended.layers:
                    raise UnrecordableError(f"{type(model).__name__} does not call transformers' attention functions, so its weights cannot be seen: "
                                            f"transformers is {transformers.__version__} here, and a newer one may")
                cache, logits = output.past_key_values, output.logits[0, -1].float().cpu()
                last = drawn(logits, temperature, generator)
                values = {**next_token_values(logits), "mark": marks.of(last)}
                write_step(trace, step, attended.layers, heads, values)
                decoded.append(last)
                if ends_answer(model, last):
                    break
    return decoded


def write_step(trace, step, layers, heads, values):
    for layer in sorted(layers):
        for head, rows in enumerate(layers[layer].permute(1, 2, 0).tolist(), start=layer * heads):
            for page, mass, score, similarity in rows:
                trace.add(step, (head, int(page)), head=head, mass=mass, score=score, similarity=similarity, **values)


def loaded(options):
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
        model = transformers.AutoModelForCausalLM.from_pretrained(options.model, torch_dtype=options.dtype).to(options.device).eval()
    except (OSError, RuntimeError, ValueError) as error:
        raise UnrecordableError(f"{options.model}: {error}") from error
    return tokenizer, model


def prompt_of(tokenizer, text):
    """As the model's chat template has a question, where there is one."""
    if not tokenizer.chat_template:
        return tokenizer(text)["input_ids"]
    question = [{"role": "user", "content": text}]
    return tokenizer(tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True), add_special_tokens=False)["input_ids"]


def arguments(command_line):
    parser = argparse.ArgumentParser(prog="farpage.record", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of a model, or its name at Hugging Face")
    parser.add_argument("--prompt-file", required=True, type=pathlib.Path, help="text of the question")
    parser.add_argument("--tokens", required=True, type=int, help="stops after so many, or with the answer")
    parser.add_argument("--output", required=True, type=pathlib.Path, help="the access trace")
    parser.add_argument("--page-tokens", type=int, default=16, help="of a page")
    parser.add_argument("--pages-per-head", type=int, default=24, help="written in each step: those with the most mass, and the newest")
    parser.add_argument("--temperature", type=float, default=0.6, help="0: the likeliest token")
    parser.add_argument("--seed", type=int, default=1, help="of the tokens that are drawn")
    parser.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"), help="auto: as the model was stored")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1")
    options = parser.parse_args(command_line)
    if min(options.tokens, options.page_tokens, options.pages_per_head) < 1 or options.temperature < 0:
        parser.error("tokens and pages are counted from 1, and temperatures from 0")
    return options


def main(command_line=None):
    options = arguments(command_line)
    try:
        text = options.prompt_file.read_text(encoding="utf-8")
        tokenizer, model = loaded(options)
        prompt = prompt_of(tokenizer, text)
        name = f"{options.model}, {len(prompt)} tokens of prompt, pages of {options.page_tokens}, torch {torch.__version__}, transformers {transformers.__version__}"
        decoded = record(model, prompt, options.output, tokens=options.tokens, text_of=tokenizer.decode, name=name, page_tokens=options.page_tokens,
                         pages_per_head=options.pages_per_head, temperature=options.temperature, seed=options.seed)
    except (OSError, UnrecordableError) as error:
        sys.exit(f"farpage.record: {error}")
    print(f"{options.output}: {len(decoded)} steps, {options.output.stat().st_size} bytes")
    print(tokenizer.decode(decoded))


if __name__ == "__main__":
    main()
