#pragma once

#include <cstdint>
#include <span>

#include "integrity/crc32c.h"
#include "transport/cuda/copies/copy_queue.h"

namespace farpage {

// What became of pages on their way to a GPU: of what its checks have found. One thread.
class LastHop {
 public:
  struct Counts {
    uint64_t checked = 0;
    uint64_t spoiled = 0;    // by the copy: its source is right still
    uint64_t unchecked = 0;  // as the driver has refused the check
    bool operator==(const Counts&) const = default;
  };

  // Of a page that has come by a batch of the queue, as the `page`th that was to be checked. `crc`:
  // that it should have. `source`: what was copied; empty: it lies in the device's memory, where it
  // was checked.
  bool is_right(const cuda::CopyQueue& queue, uint32_t batch, uint32_t page, uint32_t crc,
                std::span<const std::byte> source) {
    if (!queue.is_checked(batch)) {
      ++counts_.unchecked;
      return true;
    }
    return judge(queue.checks()->crc(batch, page) == crc, crc, source);
  }
  // Of a page that was checked, by what the device has found.
  bool judge(bool is_good, uint32_t crc, std::span<const std::byte> source) {
    ++counts_.checked;
    if (is_good) return true;
    // A node may have written to a source of its own meanwhile, and the wire to any.
    if (source.empty() || crc32c(0, source.data(), source.size()) == crc) ++counts_.spoiled;
    return false;
  }
  const Counts& counts() const { return counts_; }

 private:
  Counts counts_;
};

}  // namespace farpage
