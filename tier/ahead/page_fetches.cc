#include "tier/ahead/page_fetches.h"

#include <algorithm>

namespace farpage {

PageFetches::PageFetches(Lane& lane, uint32_t expected) : lane_(lane), fetches_(expected) {
  lane.reserve_fetches(expected);
  free_.reserve(expected);
  open_.reserve(expected);
  for (uint32_t i = expected; i-- > 0;) free_.push_back(i);
}

uint32_t PageFetches::begin(uint64_t tag, const PageRequest& request, uint64_t deadline_ns,
                            const FetchOptions& options) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(fetches_.size()));
    fetches_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  open_.push_back(index);
  OneFetch& one = fetches_[index];
  one.tag = tag;
  one.request = request;
  one.verdict = {};
  one.fetch = lane_.fetch({&one.request, 1}, {&one.verdict, 1}, deadline_ns, options);
  return index;
}

std::optional<PageFetches::Ended> PageFetches::next() {
  for (const uint32_t open : open_) {
    OneFetch& one = fetches_[open];
    if (!one.fetch.released()) continue;
    const Ended ended = {one.tag, one.verdict};
    end(open);
    return ended;
  }
  return std::nullopt;
}

void PageFetches::end(uint32_t fetch) {
  const Fetch over = std::move(fetches_[fetch].fetch);
  free_.push_back(fetch);
  const auto open = std::ranges::find(open_, fetch);
  *open = open_.back();
  open_.pop_back();
}

void PageFetches::wait(uint64_t until_ns) {
  if (!open_.empty()) lane_.wait(until_ns);
}

}  // namespace farpage
