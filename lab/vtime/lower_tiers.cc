#include "lab/vtime/lower_tiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "base/clock.h"

namespace farpage::vtime {
namespace {

// A part of a text, up to the next of these, which both are taken off.
std::string_view take_until(std::string_view& text, char end) {
  const size_t length = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return part;
}

}  // namespace

Result<TierOptions> parse_tier(std::string_view text) {
  const std::string_view whole = text;
  TierOptions tier;
  while (!text.empty()) {
    std::string_view part = text;
    part = take_until(text, ':');
    const std::string_view name = take_until(part, '=');
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    const bool is_number = error == std::errc() && end == part.data() + part.size();
    if (is_number && name == "latency_us" && value >= 0 && value <= 1e9) {
      tier.latency_ns = static_cast<uint64_t>(std::llround(value * kMicrosecond));
    } else if (is_number && name == "gbps" && value >= 1e-3 && value <= 1e6) {
      tier.bytes_per_s = static_cast<uint64_t>(std::llround(value * 1e9 / 8));
    } else if (is_number && name == "pages" && value >= 1 && value <= UINT32_MAX) {
      tier.capacity_pages = static_cast<uint64_t>(value);
    } else if (is_number && name == "bits" && value >= 1 && value <= kFullBits &&
               value == std::floor(value)) {
      tier.bits = static_cast<uint32_t>(value);
    } else {
      return fail(Code::kInvalid,
                  fmt::format("the tier '{}': give latency_us (to 10⁹), gbps (from 0.001 to 10⁶), "
                              "pages (from 1) and bits (of each number of a page, 1 to 16), as in "
                              "latency_us=10:gbps=100:pages=20000:bits=8",
                              whole));
    }
  }
  return tier;
}

Result<void> validate(const std::vector<TierOptions>& tiers) {
  if (tiers.empty() || tiers.size() > kMaxTiers) {
    return fail(Code::kInvalid, fmt::format("give 1 to {} tiers below the budget", kMaxTiers));
  }
  for (size_t i = 0; i < tiers.size(); ++i) {
    if (i > 0 && tiers[i].bits > tiers[i - 1].bits) {
      return fail(Code::kInvalid,
                  "a tier cannot be more precise than the one before it: what went through that "
                  "has lost precision already; give it as many bits= at most");
    }
    const bool is_last = i + 1 == tiers.size();
    if ((tiers[i].capacity_pages == 0) == is_last) continue;
    return fail(Code::kInvalid,
                is_last ? "the last tier has to hold what no other does: give it no pages="
                        : "every tier but the last needs pages=, or nothing ever gets below it");
  }
  return {};
}

LowerTiers::LowerTiers(const std::vector<TierOptions>& tiers, const MakePlacement& make_placement) {
  for (const TierOptions& tier : tiers) {
    bits_of_tiers_.push_back(tier.bits);
    if (tier.capacity_pages == 0) continue;
    tiers_.emplace_back(tier.capacity_pages, make_placement(tier.capacity_pages));
  }
}

std::optional<size_t> LowerTiers::nearest(prefetch::PageNumber page) const {
  const uint8_t held = held_[page];
  if (held == 0) return std::nullopt;
  return static_cast<size_t>(std::countr_zero(held));
}

void LowerTiers::on_access(const prefetch::Access& access) {
  step_ = access.step;
  for (Tier& tier : tiers_) tier.policy->on_access(access);
}

void LowerTiers::fetch(prefetch::PageNumber page) {
  const size_t from = *nearest(page);
  bits_.at(page) = std::min(bits_[page], bits_of_tiers_[from]);
  if (from == tiers_.size() || !tiers_[from].nearest.contains(page)) return;
  tiers_[from].nearest.remove(page, step_);
  tiers_[from].copies.push_back(page);
}

void LowerTiers::give_back(prefetch::PageNumber page) {
  const auto in = nearest(page);
  if (!in) return write(0, page);
  if (*in == tiers_.size() || !tiers_[*in].copies.contains(page)) return;
  tiers_[*in].copies.remove(page);
  tiers_[*in].nearest.insert(page, step_);
}

void LowerTiers::keep(prefetch::PageNumber page) {
  if (holds(0, page)) return give_back(page);
  write(0, page);
}

void LowerTiers::write(size_t index, prefetch::PageNumber page) {
  ++written_pages_;
  held_.at(page) = static_cast<uint8_t>(held_[page] | (1U << index));
  if (index == tiers_.size()) return;
  Tier& tier = tiers_[index];
  if (tier.nearest.size() + tier.copies.size() == tier.capacity_pages) push_out(index);
  tier.nearest.insert(page, step_);
}

void LowerTiers::push_out(size_t index) {
  Tier& tier = tiers_[index];
  const bool is_copy = tier.copies.size() > 0;
  const prefetch::PageNumber out = is_copy ? tier.copies.front() : tier.policy->victim(step_);
  held_.at(out) = static_cast<uint8_t>(held_[out] & ~(1U << index));
  if (is_copy) return tier.copies.remove(out);
  tier.nearest.remove(out, step_);
  if (held_[out] == 0) return write(index + 1, out);
  give_back(out);
}

}  // namespace farpage::vtime
