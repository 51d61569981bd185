#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/gpu/gpu.h"

namespace farpage::gpu_bench {

// What a kernel of variants.cu can take, and how it is launched.
struct Variant {
  const char* kernel;
  int threads;
  int pages_per_block;       // 0: blocks take pages until none is left
  int blocks_per_processor;  // then so many; 0: a block a page
  bool in_shared;            // the page lies in the block's shared memory
  uint32_t shared_bytes;     // besides
  uint32_t length_unit;      // of payloads
};

inline constexpr Variant kCrcVariants[] = {
    {"crc_w1_a1", 128, 4, 0, false, 0, 1},     {"crc_w1_o5", 128, 4, 0, false, 0, 1},
    {"crc_w1_a2", 128, 4, 0, false, 0, 1},     {"crc_w2_a1", 128, 2, 0, false, 0, 1},
    {"crc_w2_o5", 128, 2, 0, false, 0, 1},     {"crc_w2_a2", 128, 2, 0, false, 0, 1},
    {"crc_w4_a1", 128, 1, 0, false, 0, 1},     {"crc_w4_a2", 128, 1, 0, false, 0, 1},
    {"crc_w8_a1", 256, 1, 0, false, 0, 1},     {"crc_shared_w2", 64, 0, 3, true, 0, 16},
    {"crc_shared_w4", 128, 0, 3, true, 0, 16}, {"crc_shared_w4", 128, 0, 0, true, 0, 16},
    {"crc_shared_w8", 256, 0, 3, true, 0, 16}, {"crc_tables", 1024, 0, 1, false, 128 * 1024, 4096},
};

inline constexpr Variant kFusedVariants[] = {
    {"fused_shared_w2", 64, 0, 3, true, 0, 16},  {"fused_shared_w2", 64, 0, 0, true, 0, 16},
    {"fused_shared_w4", 128, 0, 3, true, 0, 16}, {"fused_shared_w4", 128, 0, 0, true, 0, 16},
    {"fused_shared_w8", 256, 0, 3, true, 0, 16}, {"fused_shared_w8", 256, 0, 0, true, 0, 16},
    {"fused_twice_w4", 128, 0, 3, false, 0, 16}, {"fused_twice_w4", 128, 0, 0, false, 0, 16},
    {"fused_twice_w8", 256, 0, 1, false, 0, 16}, {"fused_twice_w8", 256, 0, 0, false, 0, 16},
};

inline constexpr Variant kScatterVariants[] = {
    {"scatter_w4", 128, 0, 0, false, 0, 16},       {"scatter_w4", 128, 0, 8, false, 0, 16},
    {"scatter_w8", 256, 0, 0, false, 0, 16},       {"scatter_w8", 256, 0, 4, false, 0, 16},
    {"scatter_shared_w4", 128, 0, 3, true, 0, 16}, {"scatter_shared_w4", 128, 0, 0, true, 0, 16},
};

inline Launch launch_of(const Variant& variant, uint32_t pages, int processors,
                        uint32_t longest_page) {
  Launch how;
  how.kernel = variant.kernel;
  how.threads = static_cast<unsigned>(variant.threads);
  how.shared_bytes = variant.shared_bytes + (variant.in_shared ? longest_page : 0);
  if (variant.pages_per_block > 0) {
    how.blocks = (pages + variant.pages_per_block - 1) / variant.pages_per_block;
  } else if (variant.blocks_per_processor > 0) {
    how.blocks = std::min<unsigned>(pages, processors * variant.blocks_per_processor);
  } else {
    how.blocks = pages;
  }
  return how;
}

}  // namespace farpage::gpu_bench
