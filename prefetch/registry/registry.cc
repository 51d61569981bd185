#include "prefetch/registry/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/config/suggestion.h"
#include "prefetch/allocations/allocations.h"
#include "prefetch/policies/policies.h"
#include "prefetch/prefetchers/prefetchers.h"
#include "prefetch/registry/per_head.h"

namespace farpage::prefetch {
namespace {

// Each has a policy of its own.
constexpr uint32_t kMostDivided = 65'536;
constexpr uint64_t kMostOwnBytes = uint64_t{16} << 30;  // of all of them

const std::vector<PolicyInfo>& all_policies() {
  static const std::vector<PolicyInfo> all = {
      attention(),       belady(),     cost_aware(), fifo(),          h2o(),
      heavy_hitter(),    importance(), lazy(),       lfu(),           lru(),
      milestone_pages(), predictive(), raas(),       random_choice(), recency(),
      regret_aware(),    reuse_rate(), s3fifo(),     stability(),     windowed_recency(),
      workload_aware(),
  };
  return all;
}

const std::vector<AllocationInfo>& all_allocations() {
  static const std::vector<AllocationInfo> all = {even(), reasonalloc()};
  return all;
}

const std::vector<PrefetcherInfo>& all_prefetchers() {
  static const std::vector<PrefetcherInfo> all = {
      hot_pages(), learned(), majority(),           markov(),      milestone(),
      none(),      oracle(),  previous_selection(), random_seen(), used_last(),
  };
  return all;
}

// The text up to the next ':', which both are taken off.
std::string_view take_part(std::string_view& text) {
  const size_t end = std::min(text.find(':'), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

template <typename Named>
std::vector<std::string> names_of(std::span<const Named> all) {
  std::vector<std::string> names;
  for (const Named& each : all) names.emplace_back(each.name);
  return names;
}

template <typename Made>
Result<void> set(const KindOf<Made>& info, std::string_view part, std::vector<double>& values) {
  const size_t equals = part.find('=');
  const std::string_view name = part.substr(0, equals);
  const auto& parameters = info.parameters;
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  if (found == parameters.end() || equals == std::string_view::npos) {
    const auto known = names_of(std::span(parameters));
    if (known.empty()) {
      return fail(Code::kInvalid, fmt::format("'{}': {} has no parameters", part, info.name));
    }
    return fail(
        Code::kInvalid,
        fmt::format("'{}' sets no parameter of {}{}: write {}:PARAMETER=VALUE, "
                    "with any of {}",
                    part, info.name, suggestion(name, known), info.name, fmt::join(known, ", ")));
  }
  const std::string_view text = part.substr(equals + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  // A NaN is in no range.
  if (!is_number || !(value >= found->least && value <= found->most)) {
    return fail(Code::kInvalid, fmt::format("'{}': {} of {} is a number from {} to {}", part, name,
                                            info.name, found->least, found->most));
  }
  values[static_cast<size_t>(found - parameters.begin())] = value;
  return {};
}

// `what`: a policy, an allocation, or a prefetcher.
template <typename Made>
Result<ChosenOf<Made>> choose(std::string_view what, std::span<const KindOf<Made>> all,
                              std::string_view text) {
  ChosenOf<Made> chosen = {std::string(text), nullptr, {}};
  const std::string_view name = take_part(text);
  const auto found = std::ranges::find(all, name, &KindOf<Made>::name);
  if (found == all.end()) {
    const auto known = names_of(all);
    return fail(Code::kInvalid, fmt::format("there is no {} '{}'{}: choose among {}", what, name,
                                            suggestion(name, known), fmt::join(known, ", ")));
  }
  chosen.info = &*found;
  for (const Parameter& parameter : found->parameters) chosen.values.push_back(parameter.unset);
  while (!text.empty()) {
    if (auto set_one = set(*found, take_part(text), chosen.values); !set_one) {
      return tl::unexpected(set_one.error());
    }
  }
  return chosen;
}

// Where an allocation stands alone; else nothing.
std::string missing_policy(std::string_view text) {
  const std::string_view name = take_part(text);
  if (std::ranges::find(allocations(), name, &AllocationInfo::name) == allocations().end()) {
    return "";
  }
  return fmt::format("{} divides the budget of a policy: write {}/POLICY", name, name);
}

}  // namespace

std::span<const PolicyInfo> policies() {
  return all_policies();
}

std::span<const AllocationInfo> allocations() {
  return all_allocations();
}

std::span<const PrefetcherInfo> prefetchers() {
  return all_prefetchers();
}

std::unique_ptr<Policy> ChosenPolicy::make(const Setting& setting) const {
  return allocation ? per_head(*allocation, *this, setting) : ChosenOf::make(setting);
}

Result<void> ChosenPolicy::check_heads(uint32_t heads) const {
  if (heads > kMostDivided) {
    return fail(Code::kInvalid,
                fmt::format("{}: a budget is divided among {} heads at most, and the trace has "
                            "{}: record pages by groups of heads, or choose another",
                            label, kMostDivided, heads));
  }
  const uint64_t own_bytes = info->own_bytes == nullptr ? 0 : info->own_bytes(values);
  if (own_bytes > kMostOwnBytes / heads) {
    return fail(Code::kInvalid,
                fmt::format("{}: {} heads have a policy of {} bytes each, {} bytes in all, and {} "
                            "is the most: record pages by groups of heads, or choose a policy "
                            "that keeps less",
                            label, heads, own_bytes, own_bytes * heads, kMostOwnBytes));
  }
  return {};
}

Result<void> ChosenPolicy::check(const Signals& signals, const HeadLayout& layout) const {
  if (allocation) {
    if (auto checked = allocation->check(signals); !checked) return checked;
    if (auto checked = check_heads(layout.all()); !checked) return checked;
  }
  return ChosenOf::check(signals);
}

Result<ChosenPolicy> choose_policy(std::string_view text) {
  const size_t slash = text.find('/');
  const bool is_divided = slash != std::string_view::npos;
  std::optional<ChosenAllocation> allocation;
  if (is_divided) {
    auto of_allocation = choose("allocation", allocations(), text.substr(0, slash));
    if (!of_allocation) return tl::unexpected(of_allocation.error());
    allocation = std::move(*of_allocation);
  } else if (std::string missing = missing_policy(text); !missing.empty()) {
    return fail(Code::kInvalid, std::move(missing));
  }
  auto policy = choose("policy", policies(), is_divided ? text.substr(slash + 1) : text);
  if (!policy) return tl::unexpected(policy.error());
  policy->label = text;
  return ChosenPolicy{std::move(*policy), std::move(allocation)};
}

Result<ChosenPrefetcher> choose_prefetcher(std::string_view text) {
  return choose("prefetcher", prefetchers(), text);
}

Result<void> check_signals(std::string_view name, std::span<const Signal> needs,
                           const Signals& signals) {
  for (const Signal signal : needs) {
    if (signals.test(index_of(signal))) continue;
    return fail(Code::kInvalid,
                fmt::format("{} needs the column '{}', which the trace does not have: record it "
                            "(docs/formats/access-trace.md), or choose another",
                            name, kSignalNames[index_of(signal)]));
  }
  return {};
}

}  // namespace farpage::prefetch
