#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace farpage::prefetch {

// ReasonAlloc's smoothing of demands: to the power 0.5, and clipped to [0.25, 2] × their mean. All
// the same where nothing is demanded.
std::vector<double> smoothed(std::span<const double> demands);

// Whole pages, which add up to `pages` (below 2^32), by weights above 0, by largest remainders; of
// equal ones the first. Before they are rounded none is below `least`, of which there is enough
// for all.
std::vector<uint64_t> divide(uint64_t pages, std::span<const double> weights, double least = 0);

}  // namespace farpage::prefetch
