"""The prefix tree that SGLang serves with (UnifiedRadixCache), over FarpageStorage, as the command
of docs/engines.md and its file set it up: no model and no GPU."""

import json
import time
from array import array
from unittest import mock

import torch
from documented import command, configuration
from program import wait_until
from sglang_device import PAGES, KvPools
from sglang_engine import HEAD_DIM, HEADS, LAYERS, PAGE_TOKENS, CacheRequestHandle, HasController, RadixKey, get_storage_hash_str
from sglang.srt import runtime_context
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.kv_cache_builder import maybe_register_hicache_draft
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.server_args import prepare_server_args
from sglang.srt.speculative.base_spec_worker import HiCacheDraftMode, HiCacheDraftPlan

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HEADS * HEAD_DIM, "intermediate_size": 128,
         "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "num_hidden_layers": LAYERS, "vocab_size": 512, "max_position_embeddings": 8192,
         "torch_dtype": "bfloat16"}


class Tree(HasController):
    """SGLang's tree over its device pool, host pool and our storage, used as its scheduler does.
    `arguments` are more of the server's, `weights` the model's; the rest is the storage's."""

    def __init__(self, case, node, pools=KvPools, layout=None, arguments=(), weights=b"weights", **extra):
        folder = case.folder / "model"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(MODEL))
        (folder / "model.safetensors").write_bytes(weights)
        extra = {**configuration("sglang.json"), "prefetch_threshold": PAGE_TOKENS, "node": node.address, **extra}
        (case.folder / "sglang.json").write_text(json.dumps(extra))
        *documented, last = command("python3 -m sglang.launch_server")[3:]
        case.assertEqual(last, "@configs/engines/sglang.json")
        # Of an option the last one counts.
        self.layout = layout or pools.layout
        server = prepare_server_args([*documented, f"@{case.folder}/sglang.json", "--model-path", str(folder), "--device", "cpu",
                                      "--hicache-mem-layout", self.layout, *arguments])
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        runtime_context.publish(server, role="scheduler", ranks=runtime_context.SpawnRanks(world_rank=0, gpu_id=None))
        runtime_context.get_parallel().override_permanently(launch_world_size=1)
        self.pools = pools()
        parameters = CacheInitParams(
            disable=False, req_to_token_pool=self.pools.requests, token_to_kv_pool_allocator=self.pools.allocator, page_size=PAGE_TOKENS,
            tp_cache_group=torch.distributed.group.WORLD, tree_components=pools.components, eviction_policy="lru",
            sliding_window_size=pools.window, enable_mamba_extra_buffer=True)
        self.cache = UnifiedRadixCache(parameters)
        self.cache.init_hicache(server, parameters)
        maybe_register_hicache_draft(tree_cache=self.cache, draft_plan=HiCacheDraftPlan(
            HiCacheDraftMode.SIDECAR if self.pools.drafts else HiCacheDraftMode.NONE, self.pools.drafts))
        self.controller, self.requests = self.cache.cache_controller, 0
        case.addCleanup(self.close)
        case.assertTrue(wait_until(lambda: self.storage._client is not None), self.storage._connection.why_not)
        case.assertEqual(self.storage._pools["kv"].pool.layout, self.layout)

    def until(self, condition):
        """Lets the tree take its events, as each step of the scheduler does."""
        return wait_until(lambda: self.cache.check_hicache_events() or condition())

    def key(self, first, pages=PAGES):
        return RadixKey(array("q", range(first, first + pages * PAGE_TOKENS)))

    def match(self, first, pages=PAGES):
        return self.cache.match_prefix(MatchPrefixParams(key=self.key(first, pages)))

    def compute(self, first, pages=PAGES):
        """Of a prompt's first pages those that are not on the device, into the tree, which stores
        them. How many they were."""
        there = self.cache.path_device_indices(self.match(first, pages).last_device_node)
        places = self.pools.alloc(pages * PAGE_TOKENS - len(there))
        more = self.pools.write(first, len(there), places)
        self.cache.insert(InsertParams(key=self.key(first, pages), value=torch.cat([there, places]), **more))
        assert self.until(lambda: not self.cache.ongoing_write_through and not self.cache.ongoing_backup)
        return len(places) // PAGE_TOKENS

    def forget(self):
        """As SGLang flushes its caches: neither device nor host have anything, nor its bytes."""
        self.cache.reset()
        self.pools.clear()
        for pool in self.storage._pools.values():
            for buffer in pool.buffers():
                buffer.zero_()

    def prefetch(self, first):
        """(pages that the storage brought to the host, seconds)."""
        begun, self.requests = time.monotonic(), self.requests + 1
        request, match, key = CacheRequestHandle(f"r{self.requests}", 0), self.match(first), self.key(first)
        there = match.device_prefix_len + match.host_hit_length
        self.cache.prefetch_from_storage(request, match.last_host_node, key.token_ids[there:], self.cache.get_last_hash_value(match.last_host_node),
                                         None, matched_prefix_tokens=list(key.token_ids[:there]))
        assert self.until(lambda: self.cache.check_prefetch_progress(request))
        return self.cache.pop_prefetch_loaded_tokens(request) // PAGE_TOKENS, time.monotonic() - begun

    def load(self, first):
        """What the tree has of a prompt, to the device: how many pages, whose bytes are right."""
        match = self.match(first)
        if match.host_hit_length:
            assert self.cache.load_back(match.best_match_node)
            self.cache.ready_to_load_host_cache()
            assert self.until(lambda: not self.cache.ongoing_load_back)
            match = self.match(first)
        places = self.cache.path_device_indices(match.last_device_node)
        if len(places):
            self.pools.assert_right(self.cache, first, places)
        return len(places) // PAGE_TOKENS

    def come_back(self, first):
        """(pages that the storage brought, pages on the device then), with none before."""
        self.forget()
        return self.prefetch(first)[0], self.load(first)

    def between(self, action):
        """Does it after each question of the tree's, before the load."""
        move = self.storage._move_pools

        def moved(asked, *, is_load):
            if is_load:
                action()
            return move(asked, is_load=is_load)

        return mock.patch.object(self.storage, "_move_pools", moved)

    def drop(self, first, page, part=0, pool="kv"):
        """A part of a page from the nodes, behind the tree's back."""
        hashes = get_storage_hash_str(self.key(first), None, page_size=PAGE_TOKENS)
        return self.storage._client.remove(self.storage._pools[pool].keys([hashes[page]])[part:][:1]).wait()

    def lives(self):
        return all(thread.is_alive() for thread in (self.controller.prefetch_thread, self.controller.prefetch_io_aux_thread, self.controller.backup_thread))

    def evict(self, first):
        """From the device and from the host, by prompts from `first` on."""
        for number in range(8):
            if self.pools.allocator.available_size() < PAGES * PAGE_TOKENS:
                self.cache.evict(EvictParams(num_tokens=PAGES * PAGE_TOKENS))
                assert self.until(lambda: self.pools.allocator.available_size() >= PAGES * PAGE_TOKENS)
            self.compute(first + 10_000 * number)
