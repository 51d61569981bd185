#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lab/analyse/questions/question.h"
#include "prefetch/importance/selections.h"
#include "prefetch/paged_memory.h"
#include "prefetch/per_page.h"

namespace farpage::analyse {

// H2: whether the heads whose selections change most are those whose pages, once they have gone,
// are wanted again at once. The evicted pages are those that an lru memory of so many pages evicts.
class HeadQuestion final : public Question {
 public:
  // `has_mass`: a head selects its 64 pages with the most mass in a step, else all that it demands.
  HeadQuestion(uint64_t budget_pages, bool has_mass, size_t parts);
  ~HeadQuestion() override;

  void step(const Step& step, const Ahead& ahead, const Reuse& reuse) override;
  Finding end(uint64_t seed) const override;

 private:
  struct Gone {
    uint32_t pages = 0;
    uint32_t wanted_again = 0;  // within five steps
  };
  struct Head {
    std::vector<std::pair<float, prefetch::PageNumber>> demanded;  // in this step, by mass
    prefetch::Selections selections;
    uint64_t pages = 0;      // that it has by now
    std::vector<Gone> gone;  // in each part
  };
  struct Page {
    bool is_known = false;
    uint32_t head = 0;
    uint64_t gone_in = UINT64_MAX;  // a step's index
    size_t gone_part = 0;
  };
  class Memory;

  void demand(const prefetch::Access& access, const Step& step);
  void select(Head& head);

  const uint64_t budget_pages_;
  const bool has_mass_;
  const size_t parts_;
  const std::unique_ptr<Memory> memory_;
  std::unordered_map<uint32_t, Head> heads_;
  prefetch::PerPage<Page> pages_;
};

}  // namespace farpage::analyse
