#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Predictions for pages whose outcome is open: a ring in which each waits until its page is
// accessed, or its time is over. It takes no more than its capacity. On one thread.
template <size_t kFeatures>
class PendingSamples {
 public:
  struct Sample {
    PageNumber page = 0;
    float foretold = 0;  // the probability
    uint64_t due_step = 0;
    std::array<uint16_t, kFeatures> places = {};  // of its features' weights (Ftrl)
  };

  explicit PendingSamples(size_t most) : most_(most), ring_(std::bit_ceil(most)) {}
  static constexpr uint64_t bytes_of(size_t most) { return std::bit_ceil(most) * sizeof(Entry); }

  // Steps of samples never go back. Not taken where all is full.
  void add(const Sample& sample) {
    if (end_ - begin_ == most_) {
      ++dropped_;
      return;
    }
    uint64_t& newest = newest_.at(sample.page);
    at(end_) = {sample, newest, false};
    newest = ++end_;
  }
  // The predictions that wait for this page have come true.
  void on_access(PageNumber page) {
    if (newest_[page] <= begin_) return;
    for (uint64_t next = std::exchange(newest_.at(page), 0); next > begin_;) {
      Entry& entry = at(next - 1);
      entry.has_come = true;
      next = entry.before;
    }
  }
  // Another page has this number, and what waits for the one before will not come.
  void on_forget(PageNumber page) {
    if (newest_[page] != 0) newest_.at(page) = 0;
  }
  // Calls `learn` with each whose time was over before this step, and whether it came.
  template <typename Learn>
  void on_step(uint64_t step, Learn learn) {
    for (; begin_ < end_; ++begin_) {
      const Entry& entry = at(begin_);
      if (entry.sample.due_step >= step) return;
      learn(entry.sample, entry.has_come);
    }
  }

  uint64_t dropped() const { return dropped_; }  // as all was full

 private:
  struct Entry {
    Sample sample;
    uint64_t before = 0;  // of the same page, as in newest_
    bool has_come = false;
  };

  Entry& at(uint64_t number) { return ring_[number & (ring_.size() - 1)]; }

  const size_t most_;
  std::vector<Entry> ring_;
  uint64_t begin_ = 0;  // of all that were ever added
  uint64_t end_ = 0;
  uint64_t dropped_ = 0;
  PerPage<uint64_t> newest_;  // of all that were ever added the one that was so manieth; 0: none
};

}  // namespace farpage::prefetch
