#include "prefetch/milestones/prequential_score.h"

#include <algorithm>
#include <cmath>

namespace farpage::prefetch {

void PrequentialScore::add(float foretold, bool has_come) {
  const auto place = static_cast<size_t>(foretold * static_cast<float>(kBins));
  Bin& bin = bins_[std::min(place, kBins - 1)];
  ++bin.samples;
  bin.foretold += foretold;
  ++samples_;
  if (!has_come) return;
  ++bin.came;
  ++came_;
}

double PrequentialScore::base_rate() const {
  return samples_ == 0 ? 0 : static_cast<double>(came_) / static_cast<double>(samples_);
}

double PrequentialScore::pr_auc() const {
  double area = 0;
  uint64_t named = 0;
  uint64_t right = 0;
  for (auto bin = bins_.rbegin(); bin != bins_.rend(); ++bin) {
    if (bin->samples == 0) continue;
    named += bin->samples;
    right += bin->came;
    area +=
        static_cast<double>(bin->came) * static_cast<double>(right) / static_cast<double>(named);
  }
  return came_ == 0 ? 0 : area / static_cast<double>(came_);
}

double PrequentialScore::calibration_error() const {
  double off = 0;
  for (const Bin& bin : bins_) off += std::abs(bin.foretold - static_cast<double>(bin.came));
  return samples_ == 0 ? 0 : off / static_cast<double>(samples_);
}

}  // namespace farpage::prefetch
