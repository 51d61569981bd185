"""What SGLang's prefix tree caches of models that need more of each token than their own KV, in
pools of SGLang's: that of a draft model beside them (EAGLE), and the keys of an indexer (DSA)."""

import torch
from sglang_device import DEVICE_TOKENS, KvPools, WindowPools, load_states, store_states
from sglang_engine import HEAD_DIM, HEADS, LAYERS, PAGE_TOKENS, MHATokenToKVPool, PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool
from sglang.srt.mem_cache.pool_host import dsa, mla
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool


# ---- What needs CUDA

def copy_layers(src_layers, dst_layers, src_indices, dst_indices, page_size):
    for source, target in zip(src_layers, dst_layers):
        target[dst_indices] = source[src_indices]


for module in (dsa, mla):
    module.transfer_kv_direct = copy_layers
    module.transfer_kv_per_layer_direct_pf_lf, module.transfer_kv_all_layer_direct_lf_pf = load_states, store_states
dsa.DSAIndexerPoolHost.__init__.__kwdefaults__["pin_memory"] = False


# ---- Memory of the device

class DraftPools(KvPools):
    """A draft model's KV lies where the model's lies, in a pool of its own."""

    draft_layers, draft_heads, draft_dim, draft_dtype = 1, HEADS, HEAD_DIM, torch.bfloat16

    def __init__(self):
        super().__init__()
        self.draft = MHATokenToKVPool(DEVICE_TOKENS, PAGE_TOKENS, self.draft_dtype, self.draft_heads, self.draft_dim, self.draft_layers, "cpu", False,
                                      enable_alt_stream=False)
        self.drafts = (self.draft,)

    def buffers(self):
        return [*super().buffers(), *self.draft.k_buffer, *self.draft.v_buffer]


class DraftWindowPools(WindowPools):
    """A draft model's window lies where the model's window lies."""

    def __init__(self):
        super().__init__()
        self.draft = SWAKVPool(DEVICE_TOKENS, DEVICE_TOKENS, PAGE_TOKENS, torch.bfloat16, HEADS, HEAD_DIM, [0], [], "cpu", enable_alt_stream=False)
        self.drafts = (self.draft,)

    def window_buffers(self):
        return [*super().window_buffers(), *self.draft.swa_kv_pool.k_buffer, *self.draft.swa_kv_pool.v_buffer]


class IndexerPools(KvPools):
    """Of a model with sparse attention, whose draft model has that too."""

    layout = "page_first_direct"

    def __init__(self):
        super().__init__()
        self.device, *self.drafts = (DSATokenToKVPool(DEVICE_TOKENS, PAGE_TOKENS, 96, torch.bfloat16, 32, layers, "cpu", 128, False, 96 + 32)
                                     for layers in (LAYERS, 1))
        self.allocator = PagedTokenToKVPoolAllocator(DEVICE_TOKENS, PAGE_TOKENS, torch.bfloat16, "cpu", self.device, False)

    def buffers(self):
        """Each as so many bytes of each token, also the indexer's, where a page is one piece."""
        return [buffer for pool in (self.device, *self.drafts)
                for buffer in (*pool.kv_buffer, *(each.view(len(each) * PAGE_TOKENS, -1) for each in pool.index_k_with_scale_buffer))]
