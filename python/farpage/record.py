"""Decodes with a causal language model, and writes what pages its heads attend to as an access
trace: docs/record.md."""

import argparse
import contextlib
import os
import pathlib
import sys

INSTALL = "scripts/setup record installs them into build/record; elsewhere, in a virtual environment: pip install torch 'transformers>=4.48'"
try:
    import torch
    import transformers
    from farpage.attended_pages import AttendedPages, UnrecordableError
except ImportError as error:
    sys.exit(f"farpage.record: {error}: it needs PyTorch and transformers from 4.48 on: {INSTALL}")
from farpage.access_trace import TraceError, Writer
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


@contextlib.contextmanager
def told_if_unrecordable(model):
    """Models differ in many ways: a case that this does not support ends with a sentence."""
    try:
        yield
    except UnrecordableError:
        raise
    except Exception as error:
        why = " ".join(str(error).split()) or "without a word"
        raise UnrecordableError(f"{type(model).__name__} cannot be recorded: with transformers {transformers.__version__} it does not decode token by token, with a cache of "
                                f"keys and values, through transformers' attention functions ({type(error).__name__}: {why}). Record a model that does") from error


def attended_heads(model, token):
    """How many KV heads each layer has, as two tokens show it; before there is a trace to write."""
    layers = model.config.get_text_config().num_hidden_layers
    batch = torch.tensor([[token]], device=model.device)
    cache = model.base_model(batch, use_cache=True).past_key_values
    with AttendedPages(model, 1) as attended:
        attended.begin(2, 2)
        output = model(batch, past_key_values=cache, use_cache=True)
    if not attended.layers:
        raise UnrecordableError(f"{type(model).__name__} does not call transformers' attention functions, so its weights cannot be seen: "
                                f"transformers is {transformers.__version__} here, and a newer one may")
    heads = {rows.shape[1] for rows in attended.layers.values()}
    if sorted(attended.layers) != list(range(layers)) or len(heads) != 1:
        raise UnrecordableError(f"{type(model).__name__} attends in {len(attended.layers)} of its {layers} layers, with {' or '.join(map(str, sorted(heads)))} KV heads: "
                                "the trace would lack what the others keep. Record a model whose layers all attend, with as many heads")
    if output.past_key_values is None or output.logits is None:
        raise UnrecordableError(f"{type(model).__name__} gives no cache or no logits: record a causal language model")
    return heads.pop()


@torch.inference_mode()
def record(model, prompt, path, *, tokens, text_of, name, page_tokens=16, pages_per_head=24, temperature=0.6, seed=1):
    """Decodes up to so many tokens after `prompt`, a list of them, and returns them. `text_of`
    makes text of such a list.

    Each is a step of the trace: the forward of the token before it. The first step reads all pages
    of the prompt.
    """
    with told_if_unrecordable(model):
        check_length(model, prompt, tokens)
        heads = attended_heads(model, prompt[0])
        layers = model.config.get_text_config().num_hidden_layers
    generator, marks, decoded = torch.Generator().manual_seed(seed), Marks(text_of), []

    def batch(tokens):
        return torch.tensor([tokens], device=model.device)

    with Writer(path, name, synthetic=False, layers=layers, heads=heads, columns=COLUMNS) as trace:
        with told_if_unrecordable(model):
            cache = model.base_model(batch(prompt[:-1]), use_cache=True).past_key_values if len(prompt) > 1 else None
        last = prompt[-1]
        with AttendedPages(model, page_tokens) as attended:
            for step in range(tokens):
                attended.begin(len(prompt) + step, pages_per_head if step > 0 else len(prompt))
                with told_if_unrecordable(model):
                    output = model(batch([last]), past_key_values=cache, use_cache=True)
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
    # Packages that the model needs raise errors of their own, as does a kind transformers lacks.
    except Exception as error:
        raise UnrecordableError(f"{options.model}: {error}") from error
    return tokenizer, model


def prompt_of(tokenizer, text):
    """As the model's chat template has a question, where there is one."""
    if not tokenizer.chat_template:
        return tokenizer(text)["input_ids"]
    question = [{"role": "user", "content": text}]
    try:
        whole = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is a program, which refuses what it likes
        raise UnrecordableError(f"the model's chat template does not take one question: {error}") from error
    return tokenizer(whole, add_special_tokens=False)["input_ids"]


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


def tell(text):
    try:
        print(text, flush=True)
    except (OSError, UnicodeEncodeError) as error:
        # The rest of the buffer would fail once more, at the end.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(f"farpage.record: cannot write to standard output: {error}; the trace is whole")


def main(command_line=None):
    options = arguments(command_line)
    try:
        text = options.prompt_file.read_text(encoding="utf-8")
        tokenizer, model = loaded(options)
        prompt = prompt_of(tokenizer, text)
        name = f"{options.model}, {len(prompt)} tokens of prompt, pages of {options.page_tokens}, torch {torch.__version__}, transformers {transformers.__version__}"
        decoded = record(model, prompt, options.output, tokens=options.tokens, text_of=tokenizer.decode, name=name, page_tokens=options.page_tokens,
                         pages_per_head=options.pages_per_head, temperature=options.temperature, seed=options.seed)
        told = f"{options.output}: {len(decoded)} steps, {options.output.stat().st_size} bytes\n{tokenizer.decode(decoded)}"
    except UnicodeDecodeError as error:
        sys.exit(f"farpage.record: {options.prompt_file} is no text in UTF-8: {error}")
    except (OSError, TraceError, UnrecordableError) as error:
        sys.exit(f"farpage.record: {error}")
    tell(told)


if __name__ == "__main__":
    main()
