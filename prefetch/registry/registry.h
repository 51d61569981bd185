#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "prefetch/parameters.h"

namespace farpage::prefetch {

// All that there are, by name.
std::span<const PolicyInfo> policies();
std::span<const AllocationInfo> allocations();
std::span<const PrefetcherInfo> prefetchers();

// Fails, with the signal's name, where one that is needed is not among those of a trace.
Result<void> check_signals(std::string_view name, std::span<const Signal> needs,
                           const Signals& signals);

template <typename Made>
struct ChosenOf {
  std::string label;  // as it was named
  const KindOf<Made>* info;
  std::vector<double> values;

  std::unique_ptr<Made> make(const Setting& setting) const { return info->make(setting, values); }
  Result<void> check(const Signals& signals) const {
    return check_signals(info->name, info->needs, signals);
  }
};
using ChosenAllocation = ChosenOf<Allocation>;
using ChosenPrefetcher = ChosenOf<Prefetcher>;

// One for all pages; or, with an allocation, one for the pages of each head.
struct ChosenPolicy : ChosenOf<Policy> {
  std::optional<ChosenAllocation> allocation = {};

  std::unique_ptr<Policy> make(const Setting& setting) const;
  // An allocation divides among 65,536 heads at most, whose policies' own memory is 16 GiB at most.
  Result<void> check(const Signals& signals, const HeadLayout& layout) const;

 private:
  Result<void> check_heads(uint32_t heads) const;
};

// Named as on a command line: lru, or windowed_recency:window=64; policies with an allocation
// before them, too: reasonalloc/lru. Errors name what is known, and the nearest of it.
Result<ChosenPolicy> choose_policy(std::string_view text);
Result<ChosenPrefetcher> choose_prefetcher(std::string_view text);

}  // namespace farpage::prefetch
