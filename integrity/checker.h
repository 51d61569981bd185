#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory/memory_place.h"
#include "base/status.h"

namespace farpage {

// A payload that has landed, and the CRC-32C that it must have.
struct PayloadCheck {
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint32_t crc = 0;
  uint32_t tag = 0;  // comes back in the end
};

struct CheckEnd {
  enum class Outcome : uint8_t {
    kGood,    // the bytes have that CRC
    kBad,     // they have another one
    kFailed,  // the device could not look at them, and nothing is known of them
  };
  Outcome outcome = Outcome::kFailed;
  uint32_t tag = 0;  // the check's
};

// Checks payloads where they lie, in memory of one place. One thread at a time. begin and poll
// allocate nothing and never block.
class Checker {
 public:
  // Ends every check under way, and returns once none of them reads memory any more: it may block
  // for as long as a device takes. Ends that have not been polled are lost.
  virtual ~Checker() = default;

  // Starts the first of them, in order, and returns how many; there was no room for the rest. The
  // bytes under check stay in place, and nothing writes them, until the check's end has been
  // polled. Each check has exactly one end, which comes by itself, also when its device fails.
  virtual size_t begin(std::span<const PayloadCheck> checks) = 0;

  // Fills `ends` with those of checks that have ended, in any order, and returns how many.
  virtual size_t poll(std::span<CheckEnd> ends) = 0;
};

// Makes the checkers of a client's lanes. Thread-safe; outlives what it makes.
class CheckerFactory {
 public:
  virtual ~CheckerFactory() = default;

  // One for memory of that place, with room for `most` checks at one time. It refuses a place that
  // it cannot look at, in a sentence that says what to do.
  virtual Result<std::unique_ptr<Checker>> make(MemoryPlace place, size_t most) = 0;
};

}  // namespace farpage
