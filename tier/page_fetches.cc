#include "tier/page_fetches.h"

#include "base/check.h"

namespace farpage {

PageFetches::PageFetches(Lane& lane, uint32_t most) : lane_(lane), fetches_(most) {
  free_.reserve(most);
  open_.reserve(most);
  for (uint32_t i = most; i-- > 0;) free_.push_back(i);
}

void PageFetches::begin(uint64_t tag, const PageRequest& request, uint64_t deadline_ns) {
  FARPAGE_CHECK(!is_full());
  const uint32_t index = free_.back();
  free_.pop_back();
  open_.push_back(index);
  OneFetch& one = fetches_[index];
  one.tag = tag;
  one.request = request;
  one.verdict = {};
  one.fetch = lane_.fetch({&one.request, 1}, {&one.verdict, 1}, deadline_ns);
}

std::optional<PageFetches::Ended> PageFetches::next() {
  if (open_.empty()) return std::nullopt;
  lane_.progress();
  for (uint32_t& open : open_) {
    OneFetch& one = fetches_[open];
    if (!one.fetch.released()) continue;
    const Ended ended = {one.tag, one.verdict};
    Fetch over = std::move(one.fetch);
    free_.push_back(open);
    open = open_.back();
    open_.pop_back();
    return ended;
  }
  return std::nullopt;
}

}  // namespace farpage
