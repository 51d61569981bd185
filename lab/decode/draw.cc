#include "lab/decode/draw.h"

#include <algorithm>
#include <cmath>

namespace farpage::decode {
namespace {

constexpr double kScoreOf90 = 1.2815515655446004;
constexpr double kScoreOf99 = 2.3263478740408408;
constexpr double kMostSteps = 1e12;

}  // namespace

double draw_exponential(Random& random, double mean) {
  return -mean * std::log1p(-random.unit());
}

// Marsaglia's polar method.
double draw_normal(Random& random) {
  while (true) {
    const double x = 2 * random.unit() - 1;
    const double y = 2 * random.unit() - 1;
    const double square = x * x + y * y;
    if (square > 0 && square < 1) return x * std::sqrt(-2 * std::log(square) / square);
  }
}

uint64_t draw_gap_steps(Random& random, double median_steps, double sigma) {
  const double steps = median_steps * std::exp(sigma * draw_normal(random));
  return static_cast<uint64_t>(std::clamp(std::round(steps), 1.0, kMostSteps));
}

uint64_t draw_output_tokens(Random& random, const DecodeOptions& options) {
  const double score = draw_normal(random);
  const double p50 = std::log(options.output_p50);
  const double p90 = std::log(options.output_p90);
  const double p99 = std::log(options.output_p99);
  const double logarithm =
      score < kScoreOf90 ? p50 + score * (p90 - p50) / kScoreOf90
                         : p90 + (score - kScoreOf90) * (p99 - p90) / (kScoreOf99 - kScoreOf90);
  return static_cast<uint64_t>(std::clamp(std::round(std::exp(logarithm)), 1.0, 100e6));
}

}  // namespace farpage::decode
