#pragma once

#include <cstdint>
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
  // fourth of it more. It is taken when memory of that GPU is first registered.
  uint64_t bounce_bytes = 32 * kMiB;
  // Pages of at least so many bytes, of a node on this host, are copied straight from its memory
  // where they can. 0: all of them.
  uint64_t straight_bytes = 128 * kKiB;
  // The GPU counts the CRC of each page once more, where the copy has brought it.
  bool check_copies = true;

  Result<void> validate() const;
};
std::vector<ConfigField> fields(GpuOptions& options);

}  // namespace farpage
