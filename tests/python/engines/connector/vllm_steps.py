"""vLLM's own scheduler, block pool and connector interface, over workers whose model is a hash.

Of each token and layer the KV cache holds a digest of the token and of all KV before it, as it is
read from the cache; the next token comes from the last digest. So a wrong byte anywhere in what was
loaded changes the tokens, as with a model, and no GPU or kernel is needed.
"""

import hashlib
import json
import pathlib
import types
from unittest import mock

import torch
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.utils import KVOutputAggregator
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from farpage.engines import vllm_connector

CONFIG = pathlib.Path(__file__).resolve().parents[4] / "configs/engines/vllm-connector.json"
BLOCK_TOKENS, HEADS, HEAD_BYTES = 16, 2, 32  # of a layer: so many bytes of each head of a token
LAYER_BYTES = BLOCK_TOKENS * HEADS * HEAD_BYTES  # of a block
VOCABULARY = 1000


def digest(*parts):
    return hashlib.shake_128(b"".join(parts)).digest(HEADS * HEAD_BYTES)


class Worker:
    """KV caches of one rank, `layers` of them, and the connector there. `drafts`: vLLM calls it in
    the order that it has with a draft model, whose work ends the step."""

    def __init__(self, vllm_config, kv_cache_config, layers, rank, ranks, gaps, drafts):
        self._drafts = drafts
        shape = (kv_cache_config.num_blocks, HEADS, BLOCK_TOKENS, HEAD_BYTES)
        self.layers, self.rank = [f"layer.{number}" for number in range(layers)], rank
        # With gaps, a block's bytes of a layer lie between those of other blocks.
        self.caches = {name: (torch.zeros((HEADS, shape[0], *shape[2:]), dtype=torch.int8).transpose(0, 1) if gaps
                              else torch.zeros(shape, dtype=torch.int8)) for name in self.layers}
        group = types.SimpleNamespace(rank_in_group=rank, world_size=ranks)
        with mock.patch.object(vllm_connector, "get_tp_group", lambda: group), \
                mock.patch.object(vllm_connector, "get_pp_group", lambda: types.SimpleNamespace(rank_in_group=0, world_size=1)):
            self.connector = KVConnectorFactory.create_connector(vllm_config, KVConnectorRole.WORKER, kv_cache_config)
            self.connector.register_kv_caches(self.caches)

    def _read(self, name, numbers, tokens):
        """The bytes of the first tokens."""
        blocks = self.caches[name][numbers[:-(-tokens // BLOCK_TOKENS)]].permute(0, 2, 1, 3).reshape(-1, HEADS * HEAD_BYTES)
        return blocks[:tokens].numpy().tobytes()

    def _compute(self, name, tokens, begin, end, numbers):
        layer, last = f"{self.rank} {name}".encode(), b""
        kv = hashlib.blake2b(self._read(name, numbers, begin))
        for place in range(begin, end):
            last = digest(kv.digest(), layer, tokens[place].to_bytes(4, "little"))
            kv.update(last)
            self.caches[name][numbers[place // BLOCK_TOKENS], :, place % BLOCK_TOKENS] = \
                torch.frombuffer(bytearray(last), dtype=torch.int8).reshape(HEADS, HEAD_BYTES)
        return last

    def run(self, step, work):
        """{request: its last digest}, and what the connector says. `work`: (request, tokens, begin,
        end, blocks) of each request."""
        connector, digests = self.connector, {}
        connector.handle_preemptions(step.kv_connector_metadata)
        connector.bind_connector_metadata(step.kv_connector_metadata)
        if step.has_sync_kv_loads:
            connector.start_load_kv(None)
        for name in self.layers if work else ():
            connector.wait_for_layer_load(name)
            for request, tokens, begin, end, numbers in work:
                digests[request] = digest(digests.get(request, b""), self._compute(name, tokens, begin, end, numbers))
            connector.save_kv_layer(name, self.caches[name], None)
        if not step.has_sync_kv_loads:
            connector.start_load_kv(None)
        if not self._drafts:
            connector.wait_for_save()
        results = connector.get_transfer_results(step.finished_req_ids)
        output = KVConnectorOutput(
            finished_sending=results.finished_sending, finished_recving=results.finished_recving, failed_recving=results.failed_recving,
            invalid_block_ids=connector.get_block_ids_with_load_errors(), kv_connector_stats=connector.get_kv_connector_stats(),
            kv_connector_worker_meta=connector.build_connector_worker_meta())
        if self._drafts:
            connector.wait_for_save()
        connector.clear_connector_metadata()
        return digests, output


class Engine:
    """An engine of vLLM's without a model: `run()` generates."""

    def __init__(self, model, *, ranks=1, layers=3, blocks=40, gaps=False, drafts=False, engine=None, transfer=None, **settings):
        config = json.loads(CONFIG.read_text(encoding="utf-8"))
        config["kv_connector_extra_config"].update(settings)
        self.vllm_config = EngineArgs(**{**dict(
            model=model, skip_tokenizer_init=True, enforce_eager=True, block_size=BLOCK_TOKENS, max_model_len=1024, max_num_seqs=8, dtype="float32",
            max_num_batched_tokens=128, seed=0, kv_transfer_config=KVTransferConfig(**{**config, **(transfer or {})})), **(engine or {})}).create_engine_config()
        spec = FullAttentionSpec(block_size=BLOCK_TOKENS, num_kv_heads=HEADS, head_size=HEAD_BYTES // 2, dtype=torch.int8)
        groups = [KVCacheGroupSpec([f"layer.{number}" for number in range(layers)], spec)]
        kv_cache_config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)
        self.vllm_config.cache_config.num_gpu_blocks = blocks
        self.workers = [Worker(self.vllm_config, kv_cache_config, layers, rank, ranks, gaps, drafts) for rank in range(ranks)]
        init_none_hash(sha256)
        self._hasher = get_request_block_hasher(BLOCK_TOKENS, sha256)
        self.scheduler = Scheduler(self.vllm_config, kv_cache_config, StructuredOutputManager(self.vllm_config), BLOCK_TOKENS, log_stats=True)
        self.connector = self.scheduler.connector
        self.connector.set_xfer_handshake_metadata_pp_aware(
            {(0, worker.rank): worker.connector.get_handshake_metadata() for worker in self.workers})
        self._aggregator = KVOutputAggregator(ranks)
        self._requests = 0
        self.invalid = set()  # blocks that did not come
        self.steps = 0
        self.stats = []  # of the connector, as vLLM's engine tells them to its server

    @property
    def connections(self):
        return [self.connector._scheduler._connection, *(worker.connector._worker.connection for worker in self.workers)]

    def close(self):
        self.counts_at_end = self.counts()
        for worker in self.workers:
            worker.connector.shutdown()
        self.connector.shutdown()

    def request(self, prompt, tokens=4, salt=None):
        self._requests += 1
        sampling = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
        return Request(f"r{self._requests}", list(prompt), sampling, None, cache_salt=salt, block_hasher=self._hasher)

    def add(self, prompt, tokens=4, salt=None):
        request = self.request(prompt, tokens, salt)
        self.scheduler.add_request(request)
        return request

    def step(self):
        self.steps += 1
        step = self.scheduler.schedule()
        work = []
        for name, count in step.num_scheduled_tokens.items():
            request = self.scheduler.requests[name]
            end = request.num_computed_tokens  # which schedule() has moved on
            work.append((name, list(request.all_token_ids), end - count, end, self.scheduler.kv_cache_manager.get_block_ids(name)[0]))
        outputs, digests = [], []
        names = [each[0] for each in work]
        for worker in self.workers:
            each, output = worker.run(step, work)
            digests.append(each)
            outputs.append(ModelRunnerOutput(names, {name: place for place, name in enumerate(names)}, kv_connector_output=output))
        output = self._aggregator.aggregate(outputs) if len(outputs) > 1 else outputs[0]
        output.sampled_token_ids = [
            [int.from_bytes(digest(*(each[name] for each in digests))[:4], "little") % VOCABULARY] if end >= len(tokens) else []
            for name, tokens, _, end, _ in work]
        self.invalid |= output.kv_connector_output.invalid_block_ids
        told = self.scheduler.update_from_output(step, output)
        self.stats += [each.scheduler_stats.kv_connector_stats for each in told.values()
                       if each.scheduler_stats is not None and each.scheduler_stats.kv_connector_stats]
        return told

    def finish(self, requests, most=200_000):
        """Steps until these have ended."""
        for _ in range(most):
            if all(request.is_finished() for request in requests):
                return
            self.step()
        raise AssertionError(f"not ended after {most} steps: {[request.status for request in requests]}")

    def run(self, prompts, tokens=4, salt=None):
        """[tokens of each], [how many tokens of each vLLM took from the connector]"""
        requests = [self.add(prompt, tokens, salt) for prompt in prompts]
        stats = [request.prefill_stats for request in requests]  # which vLLM takes from the request
        self.finish(requests)
        return [list(request.output_token_ids) for request in requests], [each.num_external_cached_tokens for each in stats]

    def settle(self):
        """Steps until nothing is left to store."""
        while self.scheduler.has_requests():
            self.step()

    def counts(self):
        worker = self.workers[0].connector._worker
        return self.counts_at_end if worker is None else worker.figures.of("pages")


def expected(prompt, tokens=4, ranks=1, layers=3):
    """What an engine generates that never loads: computed without a cache."""
    known, output = list(prompt), []
    state = {(rank, layer): hashlib.blake2b() for rank in range(ranks) for layer in range(layers)}
    last, done = {}, 0
    for _ in range(tokens):
        for place in range(done, len(known)):
            for (rank, layer), kv in state.items():
                last[rank, layer] = digest(kv.digest(), f"{rank} layer.{layer}".encode(), known[place].to_bytes(4, "little"))
                kv.update(last[rank, layer])
        done = len(known)
        each = []
        for rank in range(ranks):
            together = b""
            for layer in range(layers):
                together = digest(together, last[rank, layer])
            each.append(together)
        output.append(int.from_bytes(digest(*each)[:4], "little") % VOCABULARY)
        known.append(output[-1])
    return output
