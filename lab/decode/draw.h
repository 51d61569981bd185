#pragma once

#include <cstdint>

#include "base/random.h"
#include "lab/decode/decode_options.h"

namespace farpage::decode {

// Own code: the standard library's distributions differ from one to another.
double draw_exponential(Random& random, double mean);
double draw_normal(Random& random);
// At least 1.
uint64_t draw_gap_steps(Random& random, double median_steps, double sigma);
// Its logarithm is linear in the normal score between the quantiles, and beyond them.
uint64_t draw_output_tokens(Random& random, const DecodeOptions& options);

inline bool draw_chance(Random& random, double probability) {
  return random.unit() < probability;
}

}  // namespace farpage::decode
