#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "prefetch/policy.h"
#include "prefetch/scorer.h"

namespace farpage::prefetch {

// A number that a policy can be given: NAME:parameter=value.
struct Parameter {
  std::string_view name;
  std::string_view meaning;
  double unset;  // what it is then
  double least;
  double most;
};

// What a policy is made for.
struct Setting {
  uint64_t budget_pages = 0;
  // The length of a page's bytes; null where all have the same.
  std::function<uint64_t(PageNumber)> page_bytes;
  const Future* future = nullptr;  // null, unless sees_future

  uint64_t bytes_of(PageNumber page) const { return page_bytes == nullptr ? 0 : page_bytes(page); }
};

using Values = std::span<const double>;  // of the parameters, in their order

// A kind of policy. What one is made with outlives it.
struct PolicyInfo {
  std::string_view name;
  std::string_view what;  // in a line
  std::vector<Parameter> parameters;
  std::unique_ptr<Policy> (*make)(const Setting& setting, Values values);
  bool sees_future = false;
  std::vector<Signal> needs = {};  // without which it decides nothing
};

// All that there are, by name.
std::span<const PolicyInfo> policies();

// Named as on a command line: lru, or windowed_recency:window=64. Errors name what is known, and
// the nearest of it.
struct ChosenPolicy {
  std::string label;  // as it was named
  const PolicyInfo* info;
  std::vector<double> values;

  std::unique_ptr<Policy> make(const Setting& setting) const { return info->make(setting, values); }
  // Fails, with the signal's name, where it needs one that a trace does not have.
  Result<void> check(const Signals& signals) const;
};
Result<ChosenPolicy> choose_policy(std::string_view text);

}  // namespace farpage::prefetch
