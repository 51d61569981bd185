#pragma once

#include <cstdint>
#include <cstdlib>

namespace farpage {

// Of the histories that a test goes through. FARPAGE_SEED=n: that one alone, or, with
// FARPAGE_SEEDS=m, so many from it on.
struct Seeds {
  uint64_t first = 1;
  uint64_t count = 0;
  bool chosen = false;  // by FARPAGE_SEED: what all together must show cannot be asked of them
};

inline Seeds seeds_from_environment(uint64_t otherwise) {
  const auto number = [](const char* name, uint64_t if_unset) {
    const char* text = std::getenv(name);
    return text == nullptr ? if_unset : std::strtoull(text, nullptr, 0);
  };
  const bool chosen = std::getenv("FARPAGE_SEED") != nullptr;
  return {number("FARPAGE_SEED", 1), number("FARPAGE_SEEDS", chosen ? 1 : otherwise), chosen};
}

}  // namespace farpage
