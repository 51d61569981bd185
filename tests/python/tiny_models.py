"""Language models of random weights, and their heads' attention from queries and keys alone."""

import torch
import transformers

VOCABULARY, WIDTH, HEADS, LAYERS = 50, 32, 4, 3
HEAD_WIDTH = WIDTH // HEADS


def tiny(kind="Llama", *, kv_heads=HEADS, **options):
    """Weights so large that attention has peaks."""
    config = getattr(transformers, kind + "Config")(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=kv_heads,
        max_position_embeddings=256, initializer_range=0.3, bos_token_id=None, eos_token_id=None, pad_token_id=None, **options)
    torch.manual_seed(11)
    return getattr(transformers, kind + "ForCausalLM")(config).eval()


def rotated(vectors):
    """Rotary position embeddings: a vector's halves are pairs, each turned by its own angle."""
    half = vectors.shape[-1] // 2
    angles = torch.arange(vectors.shape[-2]).double()[:, None] * 10000.0 ** -(torch.arange(half) / half).double()
    first, second = vectors[..., :half], vectors[..., half:]
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


class Truth:
    """One forward over the whole sequence.

    Each layer has queries[heads, tokens, width], keys[KV heads, tokens, width] and
    weights[heads, tokens, tokens].
    """

    def __init__(self, model, sequence):
        projected = {}
        hooks = [getattr(layer.self_attn, name).register_forward_hook(lambda _, __, output, key=(number, name): projected.update({key: output}))
                 for number, layer in enumerate(model.model.layers) for name in ("q_proj", "k_proj")]
        with torch.no_grad():
            self.logits = model(torch.tensor([sequence])).logits[0].double()
        for hook in hooks:
            hook.remove()
        split = lambda values: rotated(values[0].double().view(len(sequence), -1, HEAD_WIDTH).transpose(0, 1))
        self.queries = [split(projected[layer, "q_proj"]) for layer in range(LAYERS)]
        self.keys = [split(projected[layer, "k_proj"]) for layer in range(LAYERS)]
        self.kv_heads = self.keys[0].shape[0]
        self.group = HEADS // self.kv_heads
        future = torch.full((len(sequence), len(sequence)), float("-inf"), dtype=torch.double).triu(1)
        self.weights = [torch.softmax(queries @ keys.repeat_interleave(self.group, 0).transpose(1, 2) / HEAD_WIDTH ** 0.5 + future, -1)
                        for queries, keys in zip(self.queries, self.keys)]

    def head(self, head):
        """The layer of a KV head, its number there, and its query heads."""
        layer, kv_head = divmod(head, self.kv_heads)
        return layer, kv_head, slice(kv_head * self.group, (kv_head + 1) * self.group)

    def masses(self, head, position, page_tokens):
        layer, _, heads = self.head(head)
        shares = self.weights[layer][heads, position, :position + 1].mean(0).tolist()
        return [sum(shares[begin:begin + page_tokens]) for begin in range(0, len(shares), page_tokens)]

    def score(self, head, position, page, page_tokens):
        layer, kv_head, heads = self.head(head)
        keys = self.keys[layer][kv_head, page * page_tokens:min(position + 1, (page + 1) * page_tokens)]
        bounds = [sum(max(float(q) * float(column.min()), float(q) * float(column.max())) for q, column in zip(query, keys.T))
                  for query in self.queries[layer][heads, position]]
        return sum(bounds) / len(bounds)

    def similarity(self, head, position):
        layer, _, heads = self.head(head)
        query, before = self.queries[layer][heads, position].mean(0), self.queries[layer][heads, position - 1].mean(0)
        return float(query @ before / (query.norm() * before.norm()))
