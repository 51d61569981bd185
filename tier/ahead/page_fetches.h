#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tier/fetch/lane.h"

namespace farpage {

// Pages under way over a lane, each in a fetch of its own, so that each ends when it does.
// Allocates only when more are under way than `expected` and than ever before. On the lane's
// thread; the lane outlives it.
class PageFetches {
 public:
  struct Ended {
    uint64_t tag = 0;
    PageVerdict verdict;
  };

  PageFetches(Lane& lane, uint32_t expected);

  uint32_t under_way() const { return static_cast<uint32_t>(open_.size()); }

  // The destination is lent until next() has told of the tag, or end() of what it answers has come
  // back.
  uint32_t begin(uint64_t tag, const PageRequest& request, uint64_t deadline_ns,
                 const FetchOptions& options = {});
  // Does what can be done without waiting.
  void progress() {
    if (!open_.empty()) lane_.progress();
  }
  // One that has its verdict, and whose destination no operation writes any more; nothing: none
  // has.
  std::optional<Ended> next();
  // For who would know sooner: the verdict so far, with the lane driven by others.
  const PageVerdict& verdict(uint32_t fetch) const { return fetches_[fetch].verdict; }
  // Returns once no operation writes to the destination any more.
  void end(uint32_t fetch);

  // Drives the lane until something has moved, of whichever is under way, or until then.
  void wait(uint64_t until_ns);

 private:
  struct OneFetch {
    uint64_t tag = 0;
    PageRequest request;
    PageVerdict verdict;
    Fetch fetch;
  };

  Lane& lane_;
  std::deque<OneFetch> fetches_;  // they stay where they are: fetches point into them
  std::vector<uint32_t> free_;
  std::vector<uint32_t> open_;
};

}  // namespace farpage
