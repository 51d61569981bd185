#pragma once

#include <algorithm>
#include <cstdint>

namespace farpage::prefetch {

// How many pages may be under way ahead of their demands: more while demands do not feel it, half
// as many when one does, and none for a while if it feels even one. What a demand feels is how long
// its first page takes, beside what that takes when nothing is fetched ahead; so that this stays
// known, one plan in some is held back. On one thread.
class PrefetchWindow {
 public:
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
  // The first page of a demand took so long. `beside`: there were pages under way as it began.
  void on_demand(uint64_t took_ns, bool beside);

  double usual_ns() const { return usual_ns_; }  // of a demand beside which nothing was; 0: unknown

 private:
  static constexpr uint32_t kFirst = 4;
  static constexpr uint32_t kBesideInARow = 64;
  static constexpr uint32_t kLongestPause = 256;  // plans
  static constexpr double kWeight = 1.0 / 8;
  static constexpr double kTolerated = 1.05;

  void shrink();

  const uint32_t most_;
  uint32_t pages_;
  int64_t landed_ = 0;      // since it grew last; below 0: of those that were felt
  uint32_t held_back_ = 0;  // so many plans from now
  uint32_t pause_ = 1;      // how many, the next time that even one page is felt
  uint32_t beside_in_a_row_ = kBesideInARow - 8;  // what is usual is soon to be known
  bool is_known_ = false;
  double usual_ns_ = 0;
  double deviation_ns_ = 0;
};

}  // namespace farpage::prefetch
