#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "base/units.h"

namespace farpage {

// The table [gpu]: fetches into memory of GPUs, and puts from there.
struct GpuOptions {
  static constexpr uint64_t kLeastBounceBytes = 64 * kKiB;
  static constexpr uint64_t kMostBounceBytes = 64 * kGiB;

  // Of pinned host memory for each GPU, where pages land before they are copied there. Puts have a
  // fourth of it more. It is taken when memory of that GPU is first registered; and as much of the
  // GPU's memory, up to 32 MiB, where pages land there.
  uint64_t bounce_bytes = 32 * kMiB;
  // Pages of at least so many bytes, of a node on this host, are copied straight from its memory
  // where they can. 0: all of them.
  uint64_t straight_bytes = 128 * kKiB;
  // Where the pages of fetches land. "auto": in the GPU's memory, where a network card writes them,
  // if that can be; "dma-buf", "peermem": there, by that way alone; "host": in pinned memory, from
  // which they are copied.
  std::string landing = "auto";
  // The GPU counts the CRC of each page once more, where the copy has brought it.
  bool check_copies = true;

  Result<void> validate() const;
};
std::vector<ConfigField> fields(GpuOptions& options);

}  // namespace farpage
