#include "prefetch/allocations/shares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>

namespace farpage::prefetch {
namespace {

constexpr double kLeastOfMean = 0.25;
constexpr double kMostOfMean = 2;

std::vector<size_t> places(size_t count) {
  std::vector<size_t> all(count);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

// In parts of pages. Those whose share would be below `least` get that, the others what is left.
std::vector<double> exact_shares(uint64_t pages, std::span<const double> weights, double least) {
  std::vector<size_t> lightest_first = places(weights.size());
  std::ranges::stable_sort(lightest_first, {}, [&](size_t i) { return weights[i]; });
  auto left = static_cast<double>(pages);
  double weight = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> shares(weights.size(), least);
  auto above = lightest_first.begin();
  for (; above != lightest_first.end() && left * weights[*above] < least * weight; ++above) {
    left -= least;
    weight -= weights[*above];
  }
  for (; above != lightest_first.end(); ++above) shares[*above] = left * (weights[*above] / weight);
  return shares;
}

}  // namespace

std::vector<double> smoothed(std::span<const double> demands) {
  std::vector<double> weights;
  for (const double demand : demands) weights.push_back(std::sqrt(demand));
  const double mean =
      std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  if (mean == 0) return std::vector<double>(demands.size(), 1);
  for (double& weight : weights) {
    weight = std::clamp(weight, kLeastOfMean * mean, kMostOfMean * mean);
  }
  return weights;
}

std::vector<uint64_t> divide(uint64_t pages, std::span<const double> weights, double least) {
  std::vector<double> shares = exact_shares(pages, weights, least);
  std::vector<uint64_t> whole;
  uint64_t left = pages;
  for (double& share : shares) {
    whole.push_back(std::min(left, static_cast<uint64_t>(share)));
    left -= whole.back();
    share -= static_cast<double>(whole.back());
  }
  std::vector<size_t> most_left_first = places(shares.size());
  std::ranges::stable_sort(most_left_first, std::greater(), [&](size_t i) { return shares[i]; });
  for (size_t i = 0; left > 0; ++i, --left) ++whole[most_left_first[i % whole.size()]];
  return whole;
}

}  // namespace farpage::prefetch
