#include "base/histogram.h"

#include <boost/histogram.hpp>
#include <cmath>

namespace farpage {
namespace bh = boost::histogram;
namespace {

constexpr double kLowest = 1.0;
constexpr double kHighest = 1e12;
constexpr unsigned kBinCount = 2780;  // ln(1e12) / ln(1.01)
using Axis = bh::axis::regular<double, bh::axis::transform::log>;

uint64_t rank_of(double q, uint64_t count) {
  return static_cast<uint64_t>(std::ceil(q * static_cast<double>(count)));
}

}  // namespace

struct Histogram::Bins {
  bh::histogram<std::tuple<Axis>, bh::dense_storage<uint64_t>> counts =
      bh::make_histogram_with(bh::dense_storage<uint64_t>(), Axis(kBinCount, kLowest, kHighest));
};

Histogram::Histogram() : bins_(std::make_unique<Bins>()) {}
Histogram::Histogram(Histogram&&) noexcept = default;
Histogram& Histogram::operator=(Histogram&&) noexcept = default;
Histogram::~Histogram() = default;

void Histogram::add(double sample) {
  bins_->counts(std::fmin(std::fmax(sample, kLowest), kHighest * 0.999));
  ++count_;
}

void Histogram::merge(const Histogram& other) {
  bins_->counts += other.bins_->counts;
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
  std::vector<HistogramBin> result;
  for (auto&& bin : bh::indexed(bins_->counts)) {
    if (*bin > 0) result.push_back({bin.bin(0).lower(), bin.bin(0).upper(), *bin});
  }
  return result;
}

}  // namespace farpage
