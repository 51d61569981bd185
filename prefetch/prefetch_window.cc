#include "prefetch/prefetch_window.h"

namespace farpage::prefetch {

void PrefetchWindow::on_demand(Read read, uint64_t took_ns, bool beside) {
  UsualTime& usual = read == Read::kPage ? page_ : header_;
  if (!beside) {
    beside_in_a_row_ = 0;
    return usual.learn(took_ns);
  }
  ++beside_in_a_row_;
  if (usual.is_exceeded_by(took_ns)) return shrink();
  if (usual.mean_ns() > 0) pause_ = std::max(1U, pause_ - 1);
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
