#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "prefetch/per_page.h"
#include "prefetch/policy.h"

namespace farpage::kvhl {

// KV-Hierarchy-Lab's: what has followed the page accessed last most often before, at least
// `least_count` times; of equals, what followed it first (a first-order Markov chain).
class Markov final : public prefetch::Prefetcher {
 public:
  explicit Markov(uint64_t least_count) : least_count_(least_count) {}

  void on_access(const prefetch::Access& access) override;
  size_t candidates(std::span<prefetch::PageNumber> pages) override;

 private:
  using PageNumber = prefetch::PageNumber;
  struct Successor {
    PageNumber page;
    uint64_t count;
  };

  const uint64_t least_count_;
  // In the order in which they first followed.
  prefetch::PerPage<std::vector<Successor>> successors_;
  std::optional<PageNumber> last_;
};

}  // namespace farpage::kvhl
