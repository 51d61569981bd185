#pragma once

#include <cstdint>

namespace farpage {

inline constexpr uint64_t kNever = UINT64_MAX;
inline constexpr uint64_t kMicrosecond = 1'000;
inline constexpr uint64_t kMillisecond = 1'000'000;
inline constexpr uint64_t kSecond = 1'000'000'000;

// Nanoseconds on one host's own clock. Two hosts' clocks are never compared.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual uint64_t now_ns() const = 0;
};

// CLOCK_BOOTTIME: it goes on while the machine sleeps, so a lease or a reuse time can only end
// early. It stands still while a hypervisor holds a virtual machine (base/clock_gap.h).
const Clock& boottime_clock();
// CLOCK_REALTIME, since 1970: only to compare it with the other one. It can be set.
const Clock& realtime_clock();

}  // namespace farpage
