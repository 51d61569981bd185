#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace farpage {

// How long one peer's reads took lately, as seen by one lane. A histogram of quarter octaves, in
// which what is older than some hundred reads counts half, a quarter, and so on. One thread.
class RecentLatency {
 public:
  void add(uint64_t duration_ns) {
    ++counts_[bucket(duration_ns)];
    if (++total_ % kRefresh == 0) refresh();
  }

  // There have been enough to say anything.
  bool known() const { return p98_ns_ > 0; }
  // Half of the reads, and 98 of 100, took no longer.
  uint64_t median_ns() const { return median_ns_; }
  uint64_t p98_ns() const { return p98_ns_; }
  void forget() { *this = RecentLatency(); }

 private:
  static constexpr uint32_t kRefresh = 64;
  static constexpr uint32_t kMost = 1024;
  static constexpr size_t kBuckets = 128;

  // Four for each power of two from 256 ns on.
  static size_t bucket(uint64_t ns) {
    constexpr uint64_t kLeast = 256;
    if (ns < kLeast) return 0;
    const int octave = std::bit_width(ns) - 1;
    const auto at = static_cast<size_t>((octave - 8) * 4) + (ns >> (octave - 2) & 3);
    return at < kBuckets ? at : kBuckets - 1;
  }
  static uint64_t end_of(size_t bucket) { return (uint64_t{5} + bucket % 4) << (bucket / 4 + 6); }

  void refresh() {
    uint32_t below = 0;
    median_ns_ = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      below += counts_[i];
      if (median_ns_ == 0 && below * 2 >= total_) median_ns_ = end_of(i);
      if (below * 100 >= total_ * 98) {
        p98_ns_ = end_of(i);
        break;
      }
    }
    if (total_ < kMost) return;
    total_ = 0;
    for (uint16_t& count : counts_) total_ += count /= 2;
    total_ -= total_ % kRefresh;
  }

  std::array<uint16_t, kBuckets> counts_{};
  uint32_t total_ = 0;
  uint64_t median_ns_ = 0;
  uint64_t p98_ns_ = 0;
};

}  // namespace farpage
