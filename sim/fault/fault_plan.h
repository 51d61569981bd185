#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace farpage::fault {

// Faults below a completion. A page is what a read brings into two slices, header and payload; or a
// payload that comes alone, whose header comes by a read of its own.
enum class FaultKind : uint8_t {
  kFlippedHeader,   // a bit of a page's header, or of a bucket of the index, in flight
  kFlippedPayload,  // a bit of a page's payload, in flight
  kFlippedWrite,    // a bit of what a write takes, in flight
  kFlippedAtRest,   // a bit of memory that peers read: only when flip_at_rest() is called
  kTorn,            // the page's tail is that of another page, or of an older one
  kShort,           // a read ends well and has not brought its tail
  kNothing,         // a read ends well and has brought nothing
  kStaleSlot,       // what another slot holds: the location was of another time
  kLate,            // the completion comes later
  kLost,            // the completion never comes, until the channel is closed
  kDuplicated,      // the completion comes twice
  kReordered,       // the completion comes after others that were due later
  kFailed,          // the operation is not carried out, and ends as failed
};
inline constexpr size_t kFaultKinds = 13;
inline constexpr std::array<std::string_view, kFaultKinds> kFaultNames = {
    "flipped_header", "flipped_payload",
    "flipped_write",  "flipped_at_rest",
    "torn",           "short",
    "nothing",        "stale_slot",
    "late",           "lost",
    "duplicated",     "reordered",
    "failed",
};

constexpr std::string_view fault_name(FaultKind kind) {
  return kFaultNames[static_cast<size_t>(kind)];
}

// How one host's operations fare. At most one kind of fault meets an operation; the chances are
// drawn in the order of the kinds and should not add up to more than 1.
struct FaultPlan {
  std::array<double, kFaultKinds> chance{};
  uint64_t late_max_ns = kSecond;                // of kLate
  uint64_t reorder_max_ns = 100 * kMicrosecond;  // of kReordered
  uint64_t delay_ns = 0;                         // of every completion: a slow peer
  uint64_t bytes_per_s = 0;                      // 0: without limit
  uint64_t most = kNever;                        // so many faults, and then none any more

  double& of(FaultKind kind) { return chance[static_cast<size_t>(kind)]; }
  double of(FaultKind kind) const { return chance[static_cast<size_t>(kind)]; }
};

// Those that took effect: a flip that could not be made, say, is not counted. Thread-safe.
class FaultCounts {
 public:
  void add(FaultKind kind) {
    counts_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t of(FaultKind kind) const {
    return counts_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kFaultKinds> counts_{};
};

}  // namespace farpage::fault
