#include "node/store/eviction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/config/suggestion.h"
#include "node/store/ranked_pages.h"

namespace farpage {
namespace {

// Of a page that has a number: a hundred in RankedPages, and more in the policies that keep most.
constexpr uint64_t kBytesPerNumber = 256;

bool is_for_nodes(const prefetch::PolicyInfo& info) {
  return info.needs.empty() && !info.sees_future;
}

std::vector<std::string> names_for_nodes() {
  std::vector<std::string> names = {std::string(kClock)};
  for (const prefetch::PolicyInfo& info : prefetch::policies()) {
    if (is_for_nodes(info)) names.emplace_back(info.name);
  }
  return names;
}

// Why a node cannot go by what is named so; empty: it can, as far as the name says.
std::string objection(std::string_view name) {
  const std::string known = fmt::format("choose among {}", fmt::join(names_for_nodes(), ", "));
  const auto info = std::ranges::find(prefetch::policies(), name, &prefetch::PolicyInfo::name);
  if (info == prefetch::policies().end()) {
    return fmt::format("there is no such policy{}: {}", suggestion(name, names_for_nodes()), known);
  }
  if (info->sees_future)
    return fmt::format("{} sees the future, and no node does: {}", name, known);
  if (info->needs.empty()) return "";
  return fmt::format("{} needs the signal '{}' of each access, which no node hears of: {}", name,
                     prefetch::kSignalNames[prefetch::index_of(info->needs.front())], known);
}

}  // namespace

Result<std::optional<prefetch::ChosenPolicy>> choose_eviction(std::string_view text) {
  if (text == kClock) return std::nullopt;
  const std::string_view name = text.substr(0, text.find(':'));
  std::string refused = name == kClock ? "clock has no parameters" : objection(name);
  if (text.find('/') != std::string_view::npos) {
    refused = "a node does not know whose head a page is, and divides nothing: name a policy alone";
  }
  if (!refused.empty()) {
    return fail(Code::kInvalid, fmt::format("node.eviction is '{}': {}", text, refused));
  }
  auto chosen = prefetch::choose_policy(text);
  if (chosen) return std::move(*chosen);
  return fail(Code::kInvalid, fmt::format("node.eviction: {}", chosen.error().message));
}

uint64_t eviction_bytes(const std::optional<prefetch::ChosenPolicy>& policy, uint64_t slots,
                        uint64_t stores) {
  if (!policy) return 0;
  const auto own_bytes = policy->info->own_bytes;
  return slots * RankedPages::kNumbersPerSlot * kBytesPerNumber +
         stores * (own_bytes == nullptr ? 0 : own_bytes(policy->values));
}

}  // namespace farpage
