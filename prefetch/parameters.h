#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "prefetch/allocation.h"
#include "prefetch/policy.h"

namespace farpage::prefetch {

// A number that a policy, an allocation or a prefetcher can be given: NAME:parameter=value.
struct Parameter {
  std::string_view name;
  std::string_view meaning;
  double unset;  // what it is then
  double least;
  double most;
};

// The setting that a policy, an allocation or a prefetcher is made for.
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

// A kind of policy, allocation or prefetcher. The objects that one is made with outlive it.
template <typename Made>
struct KindOf {
  std::string_view name;
  std::string what;  // in a line
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

}  // namespace farpage::prefetch
