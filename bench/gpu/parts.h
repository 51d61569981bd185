#pragma once

#include "bench/gpu/gpu.h"

namespace farpage::gpu_bench {

// Each prints its table, and throws what goes wrong.
void check_crcs(const Gpu& gpu, bool small);
void check_scatter(const Gpu& gpu, bool small);
void time_crcs(const Gpu& gpu, uint32_t pages);
void time_scatter(const Gpu& gpu, uint32_t pages, uint32_t pieces);
void time_small_batches(const Gpu& gpu);
void time_bounce(const Gpu& gpu);
void time_node_pool(const Gpu& gpu);
void time_waits(const Gpu& gpu);

}  // namespace farpage::gpu_bench
