#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "prefetch/per_page.h"
#include "prefetch/policy.h"

namespace farpage::prefetch {

// What has followed the page accessed last most often before, at least `least_count` times; of
// equals, what followed it first (a first-order Markov chain).
class Markov final : public Prefetcher {
 public:
  explicit Markov(uint64_t least_count) : least_count_(least_count) {}

  void on_access(const Access& access) override;
  size_t candidates(std::span<PageNumber> pages) override;

 private:
  struct Successor {
    PageNumber page;
    uint64_t count;
  };

  const uint64_t least_count_;
  PerPage<std::vector<Successor>> successors_;  // in the order in which they first followed
  std::optional<PageNumber> last_;
};

}  // namespace farpage::prefetch
