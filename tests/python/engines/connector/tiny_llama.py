"""The configuration of a tiny Llama, for tests that load no weights."""

from transformers import LlamaConfig


def save_config(folder, layers=4):
    """Saves it below `folder`, and gives its path."""
    LlamaConfig(vocab_size=1024, hidden_size=256, intermediate_size=512, num_hidden_layers=layers, num_attention_heads=4,
                num_key_value_heads=2, head_dim=64, max_position_embeddings=4096, architectures=["LlamaForCausalLM"]).save_pretrained(folder)
    return str(folder)
