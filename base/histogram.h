#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace farpage {

struct HistogramBin {
  double lower;  // in the samples' unit
  double upper;
  uint64_t count;
};

// Samples between 1 and 10^12 (nanoseconds, say) in bins that are 1% wide; a sample outside counts
// in the first or the last. add() allocates nothing. Not thread-safe: one a thread, merged at the
// end.
class Histogram {
 public:
  static constexpr uint64_t kSamplesBeyond = 10;

  Histogram();
  Histogram(Histogram&&) noexcept;
  Histogram& operator=(Histogram&&) noexcept;
  ~Histogram();

  void add(double sample);
  void merge(const Histogram& other);
  uint64_t count() const { return count_; }
  // The upper edge of the bin in which the q-quantile (0 < q ≤ 1) lies; 0 without samples.
  double quantile(double q) const;
  // None when fewer than kSamplesBeyond lie beyond it: it would say where one or two samples fell.
  std::optional<double> supported_quantile(double q) const;
  std::vector<HistogramBin> bins() const;  // those that are not empty, ascending

 private:
  struct Bins;
  std::unique_ptr<Bins> bins_;
  uint64_t count_ = 0;
};

}  // namespace farpage
