#include "node/store/ranked_pages.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/check.h"

namespace farpage {
namespace {

constexpr uint64_t kOddFactor = 0x9E3779B97F4A7C15U;

uint64_t drawn_seed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

size_t numbers_for(uint32_t slots) {
  return std::min<uint64_t>(RankedPages::kNumbersPerSlot * slots, UINT32_MAX);
}

}  // namespace

size_t RankedPages::Hash::operator()(const PageKey& key) const noexcept {
  uint64_t mixed = (key.low ^ seed) * kOddFactor;
  mixed = ((mixed ^ mixed >> 32) + key.high) * kOddFactor;
  return mixed ^ mixed >> 32;
}

// All of the tables now, so that no access pays for their growth.
RankedPages::RankedPages(std::unique_ptr<prefetch::Policy> policy, uint32_t slots)
    : policy_(std::move(policy)),
      most_pages_(numbers_for(slots)),
      numbers_(most_pages_, Hash{drawn_seed()}),
      held_(slots, kNone) {
  pages_.reserve(most_pages_);
  gone_.reserve(most_pages_);
}

void RankedPages::want(const PageKey& key) {
  const prefetch::PageNumber number = number_of(key);
  if (!std::exchange(pages_[number].is_wanted, true)) access(number);
}

void RankedPages::come(const PageKey& key, uint32_t slot) {
  if (!numbers_.contains(key)) want(key);
  const prefetch::PageNumber number = number_of(key);
  FARPAGE_CHECK(held_[slot] == kNone);
  held_[slot] = number;
  Page& page = pages_[number];
  page.is_wanted = false;
  const uint32_t before = std::exchange(page.slot, slot);
  if (before != kNone) {
    held_[before] = kNone;
    return;
  }
  gone_.remove(number);
  policy_->on_insert(number, step());
}

void RankedPages::use(uint32_t slot) {
  if (slot < held_.size() && held_[slot] != kNone) access(held_[slot]);
}

void RankedPages::go(uint32_t slot) {
  const prefetch::PageNumber number = std::exchange(held_[slot], kNone);
  if (number == kNone) return;
  pages_[number].slot = kNone;
  gone_.push_back(number);
  policy_->on_evict(number, step());
}

std::optional<uint32_t> RankedPages::victim(const std::function<bool(uint32_t slot)>& may_go) {
  const size_t most = std::min(pages_.size() - gone_.size(), kMostAsked);
  std::optional<uint32_t> chosen;
  size_t refused = 0;
  for (; refused < most; ++refused) {
    const prefetch::PageNumber number = policy_->victim(step());
    if (may_go(pages_[number].slot)) {
      chosen = pages_[number].slot;
      break;
    }
    policy_->set_aside(number);
  }
  if (refused > 0) policy_->put_back();
  return chosen;
}

prefetch::PageNumber RankedPages::number_of(const PageKey& key) {
  if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
  const bool is_new = pages_.size() < most_pages_;
  const auto number = is_new ? static_cast<prefetch::PageNumber>(pages_.size()) : forget_one();
  if (is_new) pages_.emplace_back();
  pages_[number] = {key};
  numbers_.emplace(key, number);
  gone_.push_back(number);
  return number;
}

prefetch::PageNumber RankedPages::forget_one() {
  const prefetch::PageNumber number = gone_.front();
  gone_.remove(number);
  numbers_.erase(pages_[number].key);
  policy_->on_forget(number);
  return number;
}

void RankedPages::access(prefetch::PageNumber number) {
  if (gone_.contains(number)) gone_.move_to_back(number);
  policy_->on_access({accesses_, accesses_, number});
  ++accesses_;
}

}  // namespace farpage
