#include "prefetch/milestones/segmenter.h"

#include <algorithm>
#include <cmath>

namespace farpage::prefetch {
namespace {

constexpr double kWeight = 1.0 / 64;
constexpr double kDeviations = 3;
constexpr uint64_t kLearned = 32;  // values, before any stands out

}  // namespace

bool Segmenter::Usual::stands_out(double value) {
  const double off = value - mean_;
  const bool does = values_ >= kLearned && off > kDeviations * std::sqrt(variance_) && off > 0;
  ++values_;
  const double weight = std::max(kWeight, 1 / static_cast<double>(values_));
  mean_ += weight * off;
  variance_ = (1 - weight) * (variance_ + weight * off * off);
  return does;
}

double Segmenter::new_share(std::span<const Access> accesses) {
  size_t fresh = 0;
  for (const Access& access : accesses) {
    uint64_t& demanded_in = demanded_in_.at(access.page);
    if (demanded_in + 1 < steps_) ++fresh;
    demanded_in = steps_;
  }
  return static_cast<double>(fresh) / static_cast<double>(accesses.size());
}

void Segmenter::begin_segment() {
  ++segment_;
  begun_ = steps_;
}

void Segmenter::on_step(std::span<const Access> accesses) {
  if (accesses.empty()) return;
  ++steps_;
  const Access& first = accesses.front();
  const bool is_uncertain = entropy_.stands_out(first.entropy);
  const bool turns = shift_.stands_out(new_share(accesses));
  if (first.mark != Mark::kNone) {
    is_marked_ = true;
    if (first.mark != Mark::kBegins) phase_ = first.mark;
    return begin_segment();
  }
  if (is_marked_ || steps_since_begin() < kLeastSteps) return;
  if (is_uncertain || turns) begin_segment();
}

}  // namespace farpage::prefetch
