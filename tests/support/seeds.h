#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "tests/support/process_usage.h"

namespace farpage {

// Of the histories that a test goes through. FARPAGE_SEED=n: that one alone, or, with
// FARPAGE_SEEDS=m, so many from it on. With a sanitizer a history takes many times as long: then
// 40 of them at most, for dev goes through all.
struct Seeds {
  uint64_t first = 1;
  uint64_t count = 0;
  bool chosen = false;  // not all of them: what all together must show cannot be asked
};

inline Seeds seeds_from_environment(uint64_t otherwise) {
  const auto number = [](const char* name, uint64_t if_unset) {
    const char* text = std::getenv(name);
    return text == nullptr ? if_unset : std::strtoull(text, nullptr, 0);
  };
  const bool chosen = std::getenv("FARPAGE_SEED") != nullptr;
  const uint64_t usual = kSanitized ? std::min<uint64_t>(otherwise, 40) : otherwise;
  return {number("FARPAGE_SEED", 1), number("FARPAGE_SEEDS", chosen ? 1 : usual),
          chosen || usual < otherwise};
}

}  // namespace farpage
