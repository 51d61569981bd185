"""What vLLM lacks on a CPU for its tiers: a worker that copies blocks between the "GPU's" KV cache,
which is the host's memory there, and vLLM's shared region. Scheduler and tiers stay vLLM's own."""

import time

from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec


class CopyingWorker(OffloadingWorker):
    """For models with one group of layers. Each copy has ended when submit returns."""

    def __init__(self, kv_caches, blocks_per_chunk, region):
        self._blocks_per_chunk, self._region = blocks_per_chunk, region
        self._caches = [(cache.tensor, cache.page_size_bytes, region.create_next_worker_view(cache.page_size_bytes * blocks_per_chunk))
                        for cache in kv_caches.tensors]
        self._finished = []

    def submit_store(self, job_id, src_spec, dst_spec):
        return self._copy(job_id, src_spec, dst_spec, is_store=True)

    def submit_load(self, job_id, src_spec, dst_spec, expedited=False):
        return self._copy(job_id, dst_spec, src_spec, is_store=False)

    def _copy(self, job_id, gpu, cpu, *, is_store):
        begun_s, first = time.monotonic(), gpu.block_indices[0] % self._blocks_per_chunk
        for place, block in enumerate(gpu.block_ids.tolist(), first):
            chunk, part = int(cpu.block_ids[place // self._blocks_per_chunk]), place % self._blocks_per_chunk
            for blocks, length, rows in self._caches:
                block_row, chunk_row = blocks[block], rows[chunk, part * length:(part + 1) * length]
                chunk_row.copy_(block_row) if is_store else block_row.copy_(chunk_row)
        length = len(gpu.block_ids) * sum(length for _, length, _ in self._caches)
        self._finished.append(TransferResult(job_id, True, length, time.monotonic() - begun_s))
        return True

    def get_finished(self):
        finished, self._finished = self._finished, []
        return finished

    def wait(self, job_ids):
        pass

    def shutdown(self):
        self._caches.clear()
        self._region.cleanup()


class CpuTieringSpec(TieringOffloadingSpec):
    def get_worker(self, kv_caches):
        if self._worker is None:
            region = SharedOffloadRegion(engine_id=self._engine_id, num_chunks=self.num_chunks, rank=self.config.parallel.rank,
                                         kv_bytes_per_chunk=self.kv_bytes_per_chunk, cpu_page_size=self.cpu_page_size_per_worker)
            self._worker = CopyingWorker(kv_caches, self.blocks_per_chunk, region)
        return self._worker
