#include "lab/decode/zipf.h"

#include <cmath>

namespace farpage::decode {

std::vector<double> zipf_shares(uint64_t ranks, double exponent) {
  std::vector<double> shares(ranks);
  double sum = 0;
  for (uint64_t i = 0; i < ranks; ++i) {
    sum += shares[i] = std::pow(static_cast<double>(i + 1), -exponent);
  }
  for (double& share : shares) share /= sum;
  return shares;
}

double top_fifth(const std::vector<double>& shares) {
  double left = static_cast<double>(shares.size()) / 5;
  double sum = 0;
  for (const double share : shares) {
    if (left <= 0) break;
    sum += share * std::fmin(left, 1);
    left -= 1;
  }
  return sum;
}

double zipf_exponent(uint64_t ranks, double top_fifth_share) {
  double least = 0;
  double most = 20;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (least + most) / 2;
    (top_fifth(zipf_shares(ranks, middle)) < top_fifth_share ? least : most) = middle;
  }
  return (least + most) / 2;
}

}  // namespace farpage::decode
