"""vLLM's kernels for CPUs in PyTorch, for a release whose wheel on PyPI has those for GPUs alone:
vLLM 0.33 generates on the CPU with them. As far as a Llama needs them, and slowly."""

import torch

LIBRARY = torch.library.Library("_C", "FRAGMENT")


def kernel(schema):
    """Makes the function torch.ops._C's, with the arguments that vLLM gives it."""
    def define(function):
        LIBRARY.define(f"{function.__name__}({schema}")
        LIBRARY.impl(function.__name__, function, "CompositeExplicitAutograd")
        return function
    return define


@kernel("int[] nodes) -> ()")
def init_cpu_memory_env(nodes):
    pass


@kernel("Tensor logits) -> Tensor")
def greedy_argmax(logits):
    return logits.argmax(dim=-1).view(-1)


@kernel("Tensor starts, Tensor positions, Tensor blocks, Tensor(a!) slots, int block_tokens) -> ()")
def compute_slot_mapping_kernel_impl(starts, positions, blocks, slots, block_tokens):
    counts = starts.diff()
    requests = torch.repeat_interleave(torch.arange(len(counts)), counts)
    places = positions[:len(requests)]
    slots[:len(requests)] = blocks[requests, places // block_tokens] * block_tokens + places % block_tokens
    slots[len(requests):] = -1


@kernel("Tensor positions, Tensor(a!) query, Tensor(b!) key, int head_dim, Tensor table, bool is_neox) -> ()")
def rotary_embedding(positions, query, key, head_dim, table, is_neox):
    assert is_neox
    cos, sin = table[positions].unsqueeze(1).chunk(2, dim=-1)
    for each in (query, key):
        heads = each.view(len(positions), -1, head_dim)
        first, second = heads.chunk(2, dim=-1)
        heads.copy_(torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1))


@kernel("int requests, int heads, int kv_heads, int head_dim, Tensor lengths, ScalarType dtype, Tensor starts, bool causal, int window, str isa, "
        "bool splits, Tensor? dynamic_causal, str kv_dtype) -> Tensor")
def get_scheduler_metadata(*_):
    return torch.empty(0)


@kernel("Tensor key, Tensor value, Tensor(a!) keys, Tensor(b!) values, Tensor slots, str isa, float k_scale, float v_scale, str kv_dtype) -> ()")
def cpu_attn_reshape_and_cache(key, value, keys, values, slots, *_):
    """`keys` and `values` are the KV cache: (blocks, heads, tokens, head_dim)."""
    used = slots >= 0
    blocks, places = slots[used] // keys.shape[2], slots[used] % keys.shape[2]
    keys[blocks, :, places], values[blocks, :, places] = key[:len(slots)][used], value[:len(slots)][used]


@kernel("Tensor query, Tensor keys, Tensor values, Tensor(a!) output, Tensor starts, Tensor lengths, float scale, bool causal, Tensor? slopes, int window, "
        "Tensor blocks, float softcap, Tensor metadata, Tensor? sinks, Tensor? dynamic_causal, float k_scale, float v_scale, str kv_dtype) -> ()")
def cpu_attention_with_kv_cache(query, keys, values, output, starts, lengths, scale, causal, slopes, window, blocks, *_):
    assert causal and slopes is None and window < 0
    starts = starts.tolist()
    for number, length in enumerate(lengths[:len(starts) - 1].tolist()):
        first, end = starts[number], starts[number + 1]
        used = blocks[number, :-(-length // keys.shape[2])].long()
        key, value = (each[used].transpose(0, 1).reshape(each.shape[1], -1, each.shape[3])[:, :length] for each in (keys, values))
        reaches = torch.arange(length) <= torch.arange(length - (end - first), length).unsqueeze(1)
        attended = torch.nn.functional.scaled_dot_product_attention(
            query[first:end].transpose(0, 1), key, value, attn_mask=reaches, scale=scale, enable_gqa=True)
        output[first:end] = attended.transpose(0, 1).reshape(output[first:end].shape)
