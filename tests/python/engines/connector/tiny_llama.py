"""A tiny Llama with random weights, and its configuration: real files that vLLM loads."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 1024


def make_llama(folder, seed=0, layers=4):
    """Saves one below `folder`, in float32, and gives its path."""
    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=layers, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=64, max_position_embeddings=4096, initializer_range=0.1, tie_word_embeddings=False)
    LlamaForCausalLM(config).float().save_pretrained(folder)
    return str(folder)


def save_config(folder, layers=4):
    """The configuration alone, for tests that load no weights."""
    LlamaConfig(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=layers, num_attention_heads=4,
                num_key_value_heads=2, head_dim=64, max_position_embeddings=4096, architectures=["LlamaForCausalLM"]).save_pretrained(folder)
    return str(folder)
