#include "base/histogram.h"

#include <cmath>

namespace farpage {
namespace {

constexpr double kLowest = 1.0;
constexpr double kHighest = 1e12;

uint64_t rank_of(double q, uint64_t count) {
  return static_cast<uint64_t>(std::ceil(q * static_cast<double>(count)));
}

}  // namespace

void Histogram::add(double sample) {
  const double inside = std::fmin(std::fmax(sample, kLowest), kHighest * 0.999);
  ++counts_[static_cast<size_t>(std::log(inside) / std::log(kHighest) * kBinCount)];
  ++count_;
}

void Histogram::merge(const Histogram& other) {
  for (size_t bin = 0; bin < kBinCount; ++bin) counts_[bin] += other.counts_[bin];
  count_ += other.count_;
}

double Histogram::quantile(double q) const {
  const uint64_t rank = rank_of(q, count_);
  uint64_t seen = 0;
  for (const HistogramBin& bin : bins()) {
    seen += bin.count;
    if (seen >= rank) return bin.upper;
  }
  return 0;
}

std::optional<double> Histogram::supported_quantile(double q) const {
  if (count_ - rank_of(q, count_) < kSamplesBeyond) return std::nullopt;
  return quantile(q);
}

std::vector<HistogramBin> Histogram::bins() const {
  const auto edge = [](size_t bin) {
    return std::exp(static_cast<double>(bin) / kBinCount * std::log(kHighest));
  };
  std::vector<HistogramBin> result;
  for (size_t bin = 0; bin < kBinCount; ++bin) {
    if (counts_[bin] > 0) result.push_back({edge(bin), edge(bin + 1), counts_[bin]});
  }
  return result;
}

}  // namespace farpage
