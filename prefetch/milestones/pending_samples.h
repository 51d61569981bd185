#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "prefetch/per_page.h"

namespace farpage::prefetch {

// What was foretold of pages and has yet to show: a ring in which each waits until its page is
// accessed, or its time is over. So many at most, and of a page one: more are not taken. On one
// thread.
template <size_t kFeatures>
class PendingSamples {
 public:
  struct Sample {
    PageNumber page = 0;
    float foretold = 0;  // the probability
    uint64_t due_step = 0;
    std::array<uint32_t, kFeatures> features = {};
  };

  explicit PendingSamples(size_t most) : ring_(most) {}

  bool waits(PageNumber page) const { return place_[page] != kNone; }
  // Steps of samples never go back. Not taken where one of the page waits, or where all is full.
  void add(const Sample& sample) {
    if (waits(sample.page)) return;
    if (end_ - begin_ == ring_.size()) {
      ++dropped_;
      return;
    }
    place_.at(sample.page) = end_;
    ring_[end_++ % ring_.size()] = {sample, true};
  }
  // Calls `learn` with the sample that waits for this page, if one does.
  template <typename Learn>
  void on_access(PageNumber page, Learn learn) {
    if (!waits(page)) return;
    Entry& entry = ring_[place_[page] % ring_.size()];
    end_wait(entry);
    learn(entry.sample);
  }
  // Calls `learn` with each whose time was over before this step.
  template <typename Learn>
  void on_step(uint64_t step, Learn learn) {
    for (; begin_ < end_; ++begin_) {
      Entry& entry = ring_[begin_ % ring_.size()];
      if (!entry.waits) continue;
      if (entry.sample.due_step >= step) return;
      end_wait(entry);
      learn(entry.sample);
    }
  }

  uint64_t dropped() const { return dropped_; }  // as all was full

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  struct Entry {
    Sample sample;
    bool waits = false;
  };

  void end_wait(Entry& entry) {
    entry.waits = false;
    place_.at(entry.sample.page) = kNone;
  }

  std::vector<Entry> ring_;
  uint64_t begin_ = 0;  // of all that were ever added
  uint64_t end_ = 0;
  uint64_t dropped_ = 0;
  PerPage<uint64_t> place_{kNone};
};

}  // namespace farpage::prefetch
