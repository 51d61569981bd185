#pragma once

#include <cstdint>
#include <vector>

namespace farpage::decode {

// Shares that fall as 1 / rank^exponent and add up to 1, of so many ranks.
std::vector<double> zipf_shares(uint64_t ranks, double exponent);
// The share of the first fifth; a rank that is partly in the fifth counts in part.
double top_fifth(const std::vector<double>& shares);
// With which the first fifth holds as much as it should, as near as that can be.
double zipf_exponent(uint64_t ranks, double top_fifth_share);

}  // namespace farpage::decode
