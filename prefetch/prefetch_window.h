#pragma once

#include <algorithm>
#include <cstdint>

#include "prefetch/usual_time.h"

namespace farpage::prefetch {

// How many pages may be under way ahead of their demands: more while demands do not feel it, half
// as many when one does, and none for a while if it feels even one. A demand's measure is the time
// of its first page, or where all are here of the first of their headers, against the time when
// nothing is fetched ahead; so that this stays known, one plan in some is held back. On one thread.
class PrefetchWindow {
 public:
  enum class Read : uint8_t { kPage, kHeader };

  explicit PrefetchWindow(uint32_t most) : most_(most), pages_(std::min(most, kFirst)) {}

  uint32_t pages() const { return held_back_ > 0 ? 0 : pages_; }

  // More is asked for from now on.
  void on_plan() {
    if (held_back_ > 0) --held_back_;
    if (held_back_ == 0 && beside_in_a_row_ >= kBesideInARow) {
      held_back_ = 1;
      beside_in_a_row_ = 0;
    }
  }
  // A page has come that was fetched ahead.
  void on_landed() {
    if (++landed_ < int64_t{pages_}) return;
    landed_ = 0;
    pages_ = std::min(most_, pages_ + 1);
  }
  // The first of a demand's reads took so long. `beside`: pages were under way ahead meanwhile.
  void on_demand(Read read, uint64_t took_ns, bool beside);
  // A demand has waited in vain for what was under way ahead.
  void on_waited_in_vain() { shrink(); }

  // Of a demand's first page, where nothing was beside it; 0: unknown.
  double usual_ns() const { return page_.mean_ns(); }

 private:
  static constexpr uint32_t kFirst = 4;
  static constexpr uint32_t kBesideInARow = 64;
  static constexpr uint32_t kLongestPause = 256;  // plans

  void shrink();

  const uint32_t most_;
  uint32_t pages_;
  int64_t landed_ = 0;      // since it grew last; below 0: of those that were felt
  uint32_t held_back_ = 0;  // so many plans from now
  uint32_t pause_ = 1;      // how many, the next time that even one page is felt
  uint32_t beside_in_a_row_ = kBesideInARow - 8;  // what is usual is soon to be known
  UsualTime page_;
  UsualTime header_;
};

}  // namespace farpage::prefetch
