#include <algorithm>

#include "prefetch/page_list.h"
#include "prefetch/per_page.h"
#include "prefetch/policies/policies.h"

namespace farpage::prefetch {
namespace {

constexpr uint8_t kMostUses = 3;

// A new page goes through a small queue, and stays in a main one if it is used meanwhile, or if it
// comes again while it is remembered (`ghosts_`).
class S3Fifo final : public Policy {
 public:
  S3Fifo(uint64_t budget_pages, double small_share, uint64_t uses_to_stay)
      : small_pages_(std::max<uint64_t>(
            1, static_cast<uint64_t>(static_cast<double>(budget_pages) * small_share))),
        ghost_pages_(budget_pages - std::min(budget_pages, small_pages_)),
        uses_to_stay_(uses_to_stay) {}

  void on_access(const Access& access) override {
    if (!small_.contains(access.page) && !main_.contains(access.page)) return;
    uint8_t& uses = uses_.at(access.page);
    uses = std::min<uint8_t>(uses + 1, kMostUses);
  }

  void on_insert(PageNumber page, uint64_t) override {
    uses_.at(page) = 0;
    if (ghosts_.contains(page)) {
      ghosts_.remove(page);
      main_.push_back(page);
    } else {
      small_.push_back(page);
    }
  }

  void on_evict(PageNumber page, uint64_t) override {
    if (main_.contains(page)) return main_.remove(page);
    small_.remove(page);
    if (ghost_pages_ == 0) return;
    if (ghosts_.size() == ghost_pages_) ghosts_.remove(ghosts_.front());
    ghosts_.push_back(page);
  }
  void on_forget(PageNumber page) override {
    if (ghosts_.contains(page)) ghosts_.remove(page);
  }

  PageNumber victim(uint64_t) override {
    const size_t aside = small_.aside();
    while (small_.size() > 0 && (small_.size() + aside >= small_pages_ || main_.size() == 0)) {
      const PageNumber page = small_.front();
      if (uses_[page] < uses_to_stay_) return page;
      small_.remove(page);
      uses_.at(page) = 0;
      main_.push_back(page);
    }
    while (uses_[main_.front()] > 0) {
      --uses_.at(main_.front());
      main_.move_to_back(main_.front());
    }
    return main_.front();
  }
  void set_aside(PageNumber page) override {
    (main_.contains(page) ? main_ : small_).set_aside(page);
  }
  void put_back() override {
    main_.put_back();
    small_.put_back();
  }

 private:
  const uint64_t small_pages_;
  const uint64_t ghost_pages_;
  const uint64_t uses_to_stay_;
  PageList small_;
  PageList main_;
  PageList ghosts_;
  PerPage<uint8_t> uses_;
};

}  // namespace

// Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023.
PolicyInfo s3fifo() {
  return {.name = "s3fifo",
          .what = "what is not used again soon after it came goes; the rest goes round",
          .parameters = {{"small", "share of the budget that is for what has just come", 0.1, 0, 1},
                         {"uses", "that let it stay", 1, 1, kMostUses}},
          .make = [](const Setting& setting, Values values) -> std::unique_ptr<Policy> {
            return std::make_unique<S3Fifo>(setting.budget_pages, values[0],
                                            static_cast<uint64_t>(values[1]));
          }};
}

}  // namespace farpage::prefetch
