#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace farpage::decode {

// Parameters of a synthetic decode; by default, that of a reasoning model. docs/generate.md has the
// basis of each value.
struct DecodeOptions {
  uint64_t seed = 1;
  uint64_t layers = 4;
  uint64_t heads = 4;
  uint64_t prompt_tokens = 1'024;
  uint64_t tokens = 4'096;
  double output_p50 = 1'014;
  double output_p90 = 5'423;
  double output_p99 = 15'063;

  uint64_t page_tokens = 16;
  uint64_t pages_wanted = 24;
  uint64_t sink_tokens = 4;
  double recent_share = 0.25;
  double top_fifth_mass = 0.565;

  double segment_mean_tokens = 100;
  uint64_t segment_least_tokens = 50;
  uint64_t segment_most_tokens = 200;
  double redraw = 0.5;
  double redraw_lag_steps = 20;
  double churn_stable = 0.2;
  double churn_unstable = 0.5;
  double unstable_heads = 0.25;
  uint64_t resting_pages = 20;

  double gap_median_steps = 50;
  double gap_sigma = 1.49;
  double sleepers_return = 0.8;
  double phoenix = 0.25;
  double copied_least = 0.5;
  double copied_most = 0.8;
  uint64_t return_spread_steps = 2;
  double burst_steps = 0.01;
  double burst_wakes = 0.8;

  double milestones = 0.35;
  double milestone_returns = 12;
  double explore = 0.6;
  double verify = 0.3;
  double conclude = 0.1;
  double explore_gap = 1;
  double verify_gap = 0.6;
  double conclude_gap = 0.8;

  double informativeness = 0.5;

  // A key's value by itself is in its range already.
  Result<void> validate() const;

  uint64_t all_heads() const { return layers * heads; }
  bool has_segments() const { return segment_mean_tokens > 0; }
};

struct DecodeField {
  std::string_view key;
  std::variant<uint64_t*, double*> target;
  double least;
  double most;
  std::string_view meaning;

  double value() const;
};
std::vector<DecodeField> fields(DecodeOptions& options);

// Messages say what is wrong, and not where it stands.
Result<void> set(DecodeOptions& options, std::string_view key, double value);
Result<void> set(DecodeOptions& options, std::string_view key, std::string_view text);

inline constexpr std::string_view kPresetNames[] = {"reasoning", "normal"};
Result<DecodeOptions> preset(std::string_view name);

}  // namespace farpage::decode
