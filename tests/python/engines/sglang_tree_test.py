"""FarpageStorage under the prefix tree that SGLang serves with (UnifiedRadixCache), as the command
of docs/engines.md and its file set it up: no model and no GPU. Of SGLang only two functions are
replaced, which need CUDA: the copy between device and host, and what pins memory."""

import json
import time
import unittest
from array import array

import torch
from documented import command, configuration
from program import Case, wait_until
from sglang_engine import (
    HEAD_DIM,
    HEADS,
    LAYERS,
    PAGE_TOKENS,
    CacheRequestHandle,
    MHATokenToKVPool,
    PagedTokenToKVPoolAllocator,
    RadixKey,
)
from sglang.srt import runtime_context
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.pool_host import common, mha
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.server_args import prepare_server_args
from truth import assert_bytes

DEVICE_TOKENS = 20 * PAGE_TOKENS
PAGES = 8  # of a prompt
WATCHDOG_S = 30  # of what would not end
PARTS = 2 * LAYERS  # of a page, in the layout layer_first
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HEADS * HEAD_DIM, "intermediate_size": 128,
         "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "num_hidden_layers": LAYERS, "vocab_size": 512, "max_position_embeddings": 8192,
         "torch_dtype": "bfloat16"}


def copy_between_pools(src_layers, dst_layers, src_indices, dst_indices, page_size):
    for source, destination in zip(src_layers, dst_layers):
        destination[dst_indices] = source[src_indices]


mha.transfer_kv_direct = copy_between_pools
common._cuda_host_register = lambda *_, **__: None


class Tree:
    """SGLang's tree over its device pool, host pool and our storage, used as its scheduler does."""

    def __init__(self, case, node, layout="layer_first", **extra):
        folder = case.folder / "model"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(MODEL))
        extra = {**configuration("sglang.json"), "prefetch_threshold": PAGE_TOKENS, "node": node.address, **extra}
        (case.folder / "sglang.json").write_text(json.dumps(extra))
        *documented, last = command("python3 -m sglang.launch_server")[3:]
        case.assertEqual(last, "@configs/engines/sglang.json")
        # Of an option the last one counts.
        arguments = prepare_server_args([*documented, f"@{case.folder}/sglang.json", "--model-path", str(folder), "--device", "cpu",
                                         "--hicache-io-backend", "direct", "--hicache-mem-layout", layout])
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        runtime_context.publish(arguments, role="scheduler", ranks=runtime_context.SpawnRanks(world_rank=0, gpu_id=None))
        runtime_context.get_parallel().override_permanently(launch_world_size=1)
        self.device = MHATokenToKVPool(DEVICE_TOKENS, PAGE_TOKENS, torch.bfloat16, HEADS, HEAD_DIM, LAYERS, "cpu", False, enable_alt_stream=False)
        self.allocator = PagedTokenToKVPoolAllocator(DEVICE_TOKENS, PAGE_TOKENS, torch.bfloat16, "cpu", self.device, False)
        parameters = CacheInitParams(
            disable=False, req_to_token_pool=ReqToTokenPool(8, 4096, "cpu", False), token_to_kv_pool_allocator=self.allocator, page_size=PAGE_TOKENS,
            tp_cache_group=torch.distributed.group.WORLD, tree_components=(ComponentType.FULL,), eviction_policy="lru")
        self.cache = UnifiedRadixCache(parameters)
        self.cache.init_hicache(arguments, parameters)
        self.controller, self.storage = self.cache.cache_controller, self.cache.cache_controller.storage_backend
        self.requests = 0
        case.addCleanup(self.close)

    def close(self):
        if self.controller.storage_backend is not None:
            self.controller.detach_storage_backend()

    def until(self, condition):
        """Lets the tree take its events, as each step of the scheduler does."""
        return wait_until(lambda: self.cache.check_hicache_events() or condition())

    def buffers(self):
        return list(self.device.k_buffer) + list(self.device.v_buffer)

    def compute(self, first):
        """KV of a prompt, into the tree; what it was."""
        key = self.key(first)
        places = self.allocator.alloc(PAGES * PAGE_TOKENS)
        generator = torch.Generator().manual_seed(first)
        for buffer in self.buffers():
            buffer[places] = torch.randn((len(places), HEADS, HEAD_DIM), generator=generator).to(buffer.dtype)
        wanted = [buffer[places].clone() for buffer in self.buffers()]
        self.cache.insert(InsertParams(key=key, value=places))
        return wanted

    def key(self, first):
        return RadixKey(array("q", range(first, first + PAGES * PAGE_TOKENS)))

    def match(self, first):
        return self.cache.match_prefix(MatchPrefixParams(key=self.key(first)))

    def stored(self):
        return self.storage._client.statistics().puts_acknowledged

    def evict(self):
        """All that came before, from the device and from the host."""
        for number in range(1, 9):
            before = self.stored()
            if self.allocator.available_size() < PAGES * PAGE_TOKENS:
                self.cache.evict(EvictParams(num_tokens=PAGES * PAGE_TOKENS))
                assert self.until(lambda: self.allocator.available_size() >= PAGES * PAGE_TOKENS)
            self.compute(100_000 * number)
            assert self.until(lambda before=before: self.stored() >= before + PARTS * PAGES)

    def prefetch(self, first):
        """(pages that the storage brought, seconds)."""
        begun, self.requests = time.monotonic(), self.requests + 1
        request, match, key = CacheRequestHandle(f"r{self.requests}", 0), self.match(first), self.key(first)
        there = match.device_prefix_len + match.host_hit_length
        self.cache.prefetch_from_storage(request, match.last_host_node, key.token_ids[there:], self.cache.get_last_hash_value(match.last_host_node),
                                         None, matched_prefix_tokens=list(key.token_ids[:there]))
        assert self.until(lambda: self.cache.check_prefetch_progress(request))
        return self.cache.pop_prefetch_loaded_tokens(request) // PAGE_TOKENS, time.monotonic() - begun


class SglangTreeTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.start_node("--page-bytes", "256KiB", pool="256MiB")

    def test_evicted_prompts_come_back_and_a_dead_node_holds_nobody_up(self):
        tree = Tree(self, self.node)
        self.assertTrue(wait_until(lambda: tree.storage._client is not None), tree.storage._connection.why_not)
        wanted = tree.compute(1000)
        self.assertTrue(tree.until(lambda: tree.stored() == PARTS * PAGES))
        tree.evict()
        match = tree.match(1000)
        self.assertEqual((match.device_prefix_len, match.host_hit_length), (0, 0))
        loaded = []
        get = tree.storage.batch_get_v1
        tree.storage.batch_get_v1 = lambda keys, indices, more=None: loaded.append((keys, indices)) or get(keys, indices, more)
        self.assertEqual(tree.prefetch(1000)[0], PAGES)
        self.assertEqual(tree.match(1000).host_hit_length, PAGES * PAGE_TOKENS)
        ((_, indices),) = loaded
        host = tree.controller.storage_host_pool
        for page in range(PAGES):
            tokens = slice(page * PAGE_TOKENS, (page + 1) * PAGE_TOKENS)
            expected = torch.stack([torch.stack([wanted[kind * LAYERS + layer][tokens] for layer in range(LAYERS)]) for kind in (0, 1)])
            assert_bytes(torch.equal(host.get_data_page(int(indices[page * PAGE_TOKENS]), flat=True).view(expected.shape), expected), f"page {page}")
        self.node.kill()
        self.node.wait()
        for number in range(9, 12):
            pages, took_s = tree.prefetch(100_000 * number)
            self.assertEqual(pages, 0)
            self.assertLess(took_s, WATCHDOG_S)


if __name__ == "__main__":
    unittest.main()
