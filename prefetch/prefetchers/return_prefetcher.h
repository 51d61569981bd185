#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "prefetch/milestones/marked_pages.h"
#include "prefetch/milestones/near_pages.h"
#include "prefetch/milestones/phase_budgets.h"
#include "prefetch/milestones/return_watch.h"
#include "prefetch/parameters.h"
#include "prefetch/prefetchers/loss_limit.h"

namespace farpage::prefetch {

// The common base of prefetchers that go by pages that came back from far memory: they hear of a
// decoder step by step, and know which pages are near, which are marked, and how much they may
// still lose. On one thread.
class ReturnPrefetcher : public Prefetcher {
 public:
  void on_access(const Access& access) final {
    if (!accesses_.empty() && accesses_.front().step != access.step) end_step();
    accesses_.push_back(access);
    limit_.on_access(access);
    if (near_.on_access(access.page)) from_afar_in_.at(access.page) = watch_.step() + 1;
  }
  void on_miss(PageNumber page) final { limit_.on_miss(page); }
  void on_insert(PageNumber page) final { near_.on_insert(page); }
  void on_evict(PageNumber page) override { near_.on_evict(page); }
  void on_milestone(PageNumber page) final { marked_.add(page); }
  void on_forget(PageNumber page) override {
    if (near_.is_demanded(page)) {
      std::erase_if(accesses_, [&](const Access& each) { return each.page == page; });
    }
    watch_.on_forget(page);
    limit_.on_forget(page);
    near_.on_forget(page);
    marked_.remove(page);
    from_afar_in_.at(page) = 0;
  }
  size_t candidates(std::span<PageNumber> pages) final {
    hear_step();
    const size_t most = budgets_.most(watch_.segmenter().phase(), pages.size());
    const size_t count = name(pages.first(most));
    end_step();
    return count;
  }

 protected:
  // `shares`: PhaseBudgets'.
  ReturnPrefetcher(const Setting& setting, Values shares)
      : watch_(setting.layout), limit_(setting), budgets_(shares) {}

  // As candidates(), once all of the step is known.
  virtual size_t name(std::span<PageNumber> pages) = 0;
  // Of the step that is heard of: a page that was demanded; whether others may follow one that came
  // back; and then, that this was all.
  virtual void on_demanded(PageNumber page) = 0;
  virtual bool is_trigger(PageNumber page) const = 0;
  virtual void on_step() = 0;

  // In the last step: it was not near, or only as it was fetched ahead.
  bool is_from_afar(PageNumber page) const { return from_afar_in_[page] == watch_.step(); }
  ReturnWatch& watch() { return watch_; }
  const ReturnWatch& watch() const { return watch_; }
  const NearPages& near() const { return near_; }
  const MarkedPages& marked() const { return marked_; }
  bool may_name() const { return limit_.allows(); }

 private:
  // Nothing where that has been heard.
  void hear_step() {
    if (accesses_.empty()) return;
    watch_.on_step(
        accesses_, [this](PageNumber page) { on_demanded(page); },
        [this](PageNumber page) { return is_trigger(page); });
    on_step();
    accesses_.clear();
  }
  void end_step() {
    hear_step();
    near_.on_step();
  }

  ReturnWatch watch_;
  LossLimit limit_;
  const PhaseBudgets budgets_;
  NearPages near_;
  MarkedPages marked_;
  PerPage<uint64_t> from_afar_in_;  // the last step
  std::vector<Access> accesses_;    // of the step that is heard of
};

}  // namespace farpage::prefetch
