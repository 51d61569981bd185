#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "prefetch/milestones/candidates.h"
#include "prefetch/milestones/page_record.h"
#include "prefetch/milestones/segmenter.h"

namespace farpage::prefetch {

// Watches a decoder step by step: where its segments begin, which pages come back, and what may
// follow them. On one thread.
class ReturnWatch {
 public:
  explicit ReturnWatch(const HeadLayout& layout) : records_(layout), candidates_(layout) {}

  // Of one step; steps are counted here, whatever their numbers. `on_access(page)` hears of each
  // page first; `is_trigger(page)` says of each that came back whether others may follow it.
  template <typename OnAccess, typename IsTrigger>
  void on_step(std::span<const Access> accesses, OnAccess on_access, IsTrigger is_trigger) {
    ++step_;
    segmenter_.on_step(accesses);
    candidates_.on_step(step_);
    returned_.clear();
    triggers_ = 0;
    for (const Access& access : accesses) {
      on_access(access.page);
      if (records_.on_access(access, step_, segmenter_)) returned_.push_back(access.page);
    }
    for (const PageNumber page : returned_) {
      if (!is_trigger(page)) continue;
      candidates_.on_return(page, step_, records_);
      ++triggers_;
    }
  }

  // A page made room in the step that was last.
  void on_gone(PageNumber page) { candidates_.on_gone(page, step_); }
  // Another page has this number.
  void on_forget(PageNumber page) {
    segmenter_.on_forget(page);
    records_.on_forget(page);
    candidates_.on_forget(page);
  }

  size_t triggers() const { return triggers_; }  // of the last step
  uint64_t step() const { return step_; }        // the last one, from 1
  const Segmenter& segmenter() const { return segmenter_; }
  const PageRecords& records() const { return records_; }
  std::span<Candidates::Candidate> candidates() { return candidates_.all(); }

 private:
  Segmenter segmenter_;
  PageRecords records_;
  Candidates candidates_;
  std::vector<PageNumber> returned_;
  uint64_t step_ = 0;
  size_t triggers_ = 0;
};

}  // namespace farpage::prefetch
