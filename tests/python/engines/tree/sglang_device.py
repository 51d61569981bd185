"""What SGLang's prefix tree caches, on a device that is a CPU: SGLang's own pools of a model's KV,
and of windows or states beside it. Of SGLang only what needs CUDA is replaced: the copies between
device and host, and what pins memory."""

import functools

import torch
from sglang_engine import HEAD_DIM, HEADS, LAYERS, PAGE_TOKENS, MHATokenToKVPool, MHATokenToKVPoolHost, PagedTokenToKVPoolAllocator
from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateDType, Mamba2StateShape
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.memory_pool import HybridLinearKVPool, HybridReqToTokenPool, ReqToTokenPool
from sglang.srt.mem_cache.pool_host import common, mamba
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from truth import assert_bytes

DEVICE_TOKENS = 20 * PAGE_TOKENS
PAGES = 8  # of a prompt
WINDOW_PAGES = 2  # of sliding attention
STATES = 8
# Of a host pool's memory: where its axes of layers and of tokens lie. K and V come first.
AXES = {"layer_first": (0, 1, 2, 3, 4), "page_first": (0, 2, 1, 3, 4), "page_first_direct": (0, 2, 1, 3, 4, 5), "page_head": (0, 4, 1, 3, 2, 5)}


# ---- What needs CUDA

def host_memory(host, places):
    """Of a host pool its memory, as [K or V, layer, place, head, value], and its places there."""
    memory = host.kv_buffer.permute(AXES[host.layout])
    return memory, (places,) if memory.dim() == 5 else (places // PAGE_TOKENS, places % PAGE_TOKENS)


def load_layer(self, device_pool, host_indices, device_indices, layer_id, io_backend, **_):
    memory, places = host_memory(self, host_indices)
    if layer_id < self.target_layer_num:
        self.device_k_buffers[layer_id][device_indices], self.device_v_buffers[layer_id][device_indices] = memory[(slice(None), layer_id, *places)]


def store_layers(self, device_pool, host_indices, device_indices, io_backend):
    memory, places = host_memory(self, host_indices)
    for kind, buffers in enumerate((self.device_k_buffers, self.device_v_buffers)):
        for layer, buffer in enumerate(buffers):
            memory[(kind, layer, *places)] = buffer[device_indices]


def load_states(src_ptrs, dst_ptrs, src_indices, dst_indices, layer_id, page_size):
    dst_ptrs[0][dst_indices] = src_ptrs[0][src_indices // page_size, layer_id, src_indices % page_size]


def store_states(src_ptrs, dst_ptrs, src_indices, dst_indices, page_size):
    for layer, buffer in enumerate(src_ptrs):
        dst_ptrs[0][dst_indices // page_size, layer, dst_indices % page_size] = buffer[src_indices]


MHATokenToKVPoolHost.load_to_device_per_layer, MHATokenToKVPoolHost.backup_from_device_all_layer = load_layer, store_layers
mamba.transfer_kv_per_layer_direct_pf_lf, mamba.transfer_kv_all_layer_direct_lf_pf = load_states, store_states
common._cuda_host_register = lambda *_, **__: None


# ---- Memory of the device

@functools.cache
def values(first, number, shape, dtype):
    """What a model would compute of a prompt, for one buffer."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(first * 1000 + number)).to(dtype)


def values_of_tokens(first, number, buffer):
    return values(first, number, (PAGES * PAGE_TOKENS, *buffer.shape[1:]), buffer.dtype)


class KvPools:
    """Of a model whose layers all attend to everything."""

    components, window, layout = (ComponentType.FULL,), None, "page_first"
    drafts = ()  # pools of a draft model

    def __init__(self):
        self.device = MHATokenToKVPool(DEVICE_TOKENS, PAGE_TOKENS, torch.bfloat16, HEADS, HEAD_DIM, LAYERS, "cpu", False, enable_alt_stream=False)
        self.kv = self.device
        self.allocator = PagedTokenToKVPoolAllocator(DEVICE_TOKENS, PAGE_TOKENS, torch.bfloat16, "cpu", self.device, False)
        self.requests = ReqToTokenPool(8, 4096, "cpu", False)

    def alloc(self, count):
        return self.allocator.alloc(count)

    def buffers(self):
        return [*self.kv.k_buffer, *self.kv.v_buffer]

    def write(self, first, begin, places):
        """KV of the prompt's tokens from `begin` on; more that the tree is to insert."""
        for number, buffer in enumerate(self.buffers()):
            buffer[places] = values_of_tokens(first, number, buffer)[begin:][:len(places)]
        return {}

    def assert_right(self, cache, first, places):
        """The prompt's first tokens are at these places."""
        for number, buffer in enumerate(self.buffers()):
            assert_bytes(torch.equal(buffer[places], values_of_tokens(first, number, buffer)[:len(places)]), f"prompt {first}, buffer {number}")

    def clear(self):
        """All of it is free, and holds nothing of a prompt."""
        self.allocator.clear()
        for buffer in self.buffers():
            buffer.zero_()


class WindowPools(KvPools):
    """Of a model half of whose layers attend to a window."""

    components, window = (ComponentType.FULL, ComponentType.SWA), WINDOW_PAGES * PAGE_TOKENS

    def __init__(self):
        super().__init__()
        half = LAYERS // 2
        self.device = SWAKVPool(DEVICE_TOKENS, DEVICE_TOKENS, PAGE_TOKENS, torch.bfloat16, HEADS, HEAD_DIM, [*range(half, LAYERS)], [*range(half)], "cpu",
                                enable_alt_stream=False)
        self.kv = self.device.full_kv_pool
        self.allocator = SWATokenToKVPoolAllocator(DEVICE_TOKENS, DEVICE_TOKENS, PAGE_TOKENS, torch.bfloat16, "cpu", self.device, False)

    def alloc(self, count):
        places, window = (each.alloc(count) for each in (self.allocator.full_attn_allocator, self.allocator.swa_attn_allocator))
        self.allocator.set_full_to_swa_mapping(places, window)
        return places

    def window_buffers(self):
        return [*self.device.swa_kv_pool.k_buffer, *self.device.swa_kv_pool.v_buffer]

    def write(self, first, begin, places):
        for number, buffer in enumerate(self.window_buffers()):
            buffer[self.allocator.full_to_swa_index_mapping[places]] = values_of_tokens(first, 50 + number, buffer)[begin:][:len(places)]
        return super().write(first, begin, places)

    def assert_right(self, cache, first, places):
        super().assert_right(cache, first, places)
        window = self.allocator.full_to_swa_index_mapping[places][-self.window:]
        assert window.all(), "wrong bytes: the window is nowhere"
        for number, buffer in enumerate(self.window_buffers()):
            right = values_of_tokens(first, 50 + number, buffer)[:len(places)][-self.window:]
            assert_bytes(torch.equal(buffer[window], right), f"prompt {first}, the window's buffer {number}")

    def clear(self):
        super().clear()
        for buffer in self.window_buffers():
            buffer.zero_()


class StatePools(KvPools):
    """Of a model half of whose layers have states of Mamba."""

    components, layout = (ComponentType.FULL, ComponentType.MAMBA), "page_first_direct"

    def __init__(self):
        half = LAYERS // 2
        shape = Mamba2StateShape.create(tp_world_size=1, intermediate_size=64, n_groups=1, num_heads=2, head_dim=32, state_size=16, conv_kernel=4)
        states = [*range(half, LAYERS)]
        self.requests = HybridReqToTokenPool(
            size=8, mamba_size=STATES, mamba_spec_state_size=0, max_context_len=4096, device="cpu", enable_memory_saver=False,
            cache_params=Mamba2CacheParams(shape=shape, layers=states, dtype=Mamba2StateDType(conv=torch.bfloat16, temporal=torch.float32)),
            mamba_layer_ids=states, enable_mamba_extra_buffer=True)
        self.device = HybridLinearKVPool(DEVICE_TOKENS, torch.bfloat16, PAGE_TOKENS, HEADS, HEAD_DIM, [*range(half)], "cpu", self.requests.mamba_pool)
        self.kv = self.device.full_kv_pool
        self.allocator = PagedTokenToKVPoolAllocator(DEVICE_TOKENS, PAGE_TOKENS, torch.bfloat16, "cpu", self.device, False)

    def states(self):
        cache = self.requests.mamba_pool.mamba_cache
        return [*cache.conv, cache.temporal]

    def state(self, first, end, number, buffer):
        """Behind a prompt's first tokens."""
        return values(first, 100 + end + number, (len(buffer), 1, *buffer.shape[2:]), buffer.dtype)

    def write(self, first, begin, places):
        slot = self.requests.mamba_allocator.alloc(1)
        for number, buffer in enumerate(self.states()):
            buffer[:, slot] = self.state(first, begin + len(places), number, buffer)
        return {**super().write(first, begin, places), "mamba_value": slot}

    def assert_right(self, cache, first, places):
        super().assert_right(cache, first, places)
        slots = cache.all_mamba_values_flatten()
        assert len(slots) == 1, f"wrong bytes: {len(slots)} states of one prompt"
        for number, buffer in enumerate(self.states()):
            assert_bytes(torch.equal(buffer[:, slots], self.state(first, len(places), number, buffer)), f"prompt {first}, state {number}")

    def clear(self):
        super().clear()
        self.requests.clear()
        for buffer in self.states():
            buffer.zero_()
