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
#include "prefetch/allocation.h"
#include "prefetch/policy.h"
#include "prefetch/scorer.h"

namespace farpage::prefetch {

// A number that a policy, an allocation or a prefetcher can be given: NAME:parameter=value.
struct Parameter {
  std::string_view name;
  std::string_view meaning;
  double unset;  // what it is then
  double least;
  double most;
};

// What one is made for.
struct Setting {
  uint64_t budget_pages = 0;
  HeadLayout layout = {};  // of the accesses' heads
  // The length of a page's bytes; null where all have the same.
  std::function<uint64_t(PageNumber)> page_bytes;
  const Future* future = nullptr;  // null, unless sees_future
  // For a prefetcher: makes another policy like that of the memory it fetches for; null where that
  // is not known, or sees the future.
  std::function<std::unique_ptr<Policy>()> make_policy = {};

  uint64_t bytes_of(PageNumber page) const { return page_bytes == nullptr ? 0 : page_bytes(page); }
};

using Values = std::span<const double>;  // of the parameters, in their order

// A kind of policy, allocation or prefetcher. What one is made with outlives it.
template <typename Made>
struct KindOf {
  std::string_view name;
  std::string_view what;  // in a line
  std::vector<Parameter> parameters;
  std::unique_ptr<Made> (*make)(const Setting& setting, Values values);
  bool sees_future = false;
  std::vector<Signal> needs = {};  // without which it decides nothing
  // The memory that one takes whatever it hears of; null where that is little.
  uint64_t (*own_bytes)(Values values) = nullptr;
};
using PolicyInfo = KindOf<Policy>;
using AllocationInfo = KindOf<Allocation>;
using PrefetcherInfo = KindOf<Prefetcher>;

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
