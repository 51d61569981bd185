#pragma once

#include <cstdint>
#include <optional>

#include "prefetch/page_list.h"
#include "prefetch/per_page.h"
#include "prefetch/policy.h"
#include "prefetch/resident_set.h"

namespace farpage::vtime {

// The pages that are near: those that the policy keeps, and those that were fetched ahead and are
// held until they are used, or have been long enough. The policy does not know of these, so it lets
// none of them go for having come without an access, and hears of each as of a page that was
// demanded. At most half of the memory is held, and of that half the share that was of use lately:
// wrong guesses must not crowd out what was right to keep.
class NearMemory {
 public:
  using PageNumber = prefetch::PageNumber;

  // `policy` outlives it.
  NearMemory(uint64_t budget_pages, prefetch::Policy& policy)
      : budget_pages_(budget_pages), policy_(policy), kept_(policy) {}

  bool contains(PageNumber page) const { return kept_.contains(page) || held_.contains(page); }
  bool is_full() const { return kept_.size() + held_.size() == budget_pages_; }
  // How many more pages may be held.
  uint64_t room_ahead() const;
  // A page that was fetched ahead was of use, be it that it is held or was only on its way.
  void count_use() { count(1); }
  void count_waste() { count(0); }

  // A page that is not near was demanded. Answers what went for it; without a budget nothing comes.
  std::optional<PageNumber> insert(PageNumber page, uint64_t step);
  // A page that is near was demanded.
  void use(PageNumber page, uint64_t step);

  // Which of the policy's would go now for a page that was fetched ahead, where the memory is full:
  // the first that it names and that need not stay. Nothing: all must.
  template <typename MustStay>
  std::optional<PageNumber> victim(uint64_t step, MustStay must_stay) {
    while (kept_.size() > aside_) {
      const PageNumber named = policy_.victim(step);
      if (!must_stay(named)) return named;
      policy_.set_aside(named);
      ++aside_;
    }
    return std::nullopt;
  }
  void evict(PageNumber page, uint64_t step) { kept_.remove(page, step); }
  // Pages that had to stay may be named again.
  void end_evictions() {
    if (aside_ > 0) policy_.put_back();
    aside_ = 0;
  }
  // There is room, and room_ahead(). Up to that step, as they are counted here.
  void hold(PageNumber page, uint64_t last_step);
  // Pages held up to a step before this one are the policy's from now on, and `ended` hears of
  // each. `step`: as the trace calls it.
  template <typename Ended>
  void end_holds(uint64_t counted_step, uint64_t step, Ended ended) {
    while (held_.size() > 0 && last_step_[held_.front()] < counted_step) {
      const PageNumber page = held_.front();
      held_.remove(page);
      kept_.insert(page, step);
      count_waste();
      ended(page);
    }
  }

 private:
  static constexpr double kWeight = 1.0 / 256;  // of a page
  static constexpr uint64_t kLeastShare = 32;   // that many parts, or nothing would be learned more

  void count(double use) { useful_share_ += kWeight * (use - useful_share_); }

  const uint64_t budget_pages_;
  prefetch::Policy& policy_;
  prefetch::ResidentSet kept_;
  double useful_share_ = 1;  // of what was fetched ahead, a moving average over the pages
  prefetch::PageList held_;  // in the order in which they came
  prefetch::PerPage<uint64_t> last_step_;  // of those that are held
  uint64_t aside_ = 0;                     // kept pages that have to stay
};

}  // namespace farpage::vtime
