#include "prefetch/prefetch_window.h"

#include <cmath>

namespace farpage::prefetch {

void PrefetchWindow::on_demand(uint64_t took_ns, bool beside) {
  const auto took = static_cast<double>(took_ns);
  if (!beside) {
    beside_in_a_row_ = 0;
    if (!is_known_) usual_ns_ = took;
    is_known_ = true;
    deviation_ns_ += kWeight * (std::abs(took - usual_ns_) - deviation_ns_);
    usual_ns_ += kWeight * (took - usual_ns_);
    return;
  }
  ++beside_in_a_row_;
  if (!is_known_) return;
  if (took > kTolerated * usual_ns_ + 2 * deviation_ns_) return shrink();
  pause_ = std::max(1U, pause_ - 1);
}

void PrefetchWindow::shrink() {
  landed_ = -int64_t{pages_};
  if (pages_ > 1) {
    pages_ /= 2;
    return;
  }
  held_back_ = pause_;
  pause_ = std::min(kLongestPause, 2 * pause_);
}

}  // namespace farpage::prefetch
