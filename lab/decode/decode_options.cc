#include "lab/decode/decode_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/config/suggestion.h"

namespace farpage::decode {
namespace {

constexpr double kExact = 0x1p53;  // below it, a double is any whole number
constexpr double kMostTokens = 100e6;
constexpr double kMostPages = 4e9;  // of a trace

DecodeOptions normal() {
  DecodeOptions options;
  options.tokens = 1'024;
  options.output_p50 = 129;
  options.output_p90 = 424;
  options.output_p99 = 601;
  options.recent_share = 0.8;
  options.top_fifth_mass = 0.75;
  options.segment_mean_tokens = 0;
  options.redraw = 0;
  options.redraw_lag_steps = 0;
  options.churn_stable = 0.01;
  options.churn_unstable = 0.1;
  options.gap_median_steps = 4;
  options.gap_sigma = 0.9;
  options.phoenix = 0.15;
  options.copied_least = 0.3;
  options.copied_most = 0.3;
  options.burst_steps = 0;
  options.burst_wakes = 0;
  options.milestones = 0;
  options.milestone_returns = 0;
  return options;
}

tl::unexpected<Error> refuse(const std::string& message) {
  return fail(Code::kInvalid, message);
}

}  // namespace

double DecodeField::value() const {
  return std::visit([](const auto* target) { return static_cast<double>(*target); }, target);
}

std::vector<DecodeField> fields(DecodeOptions& o) {
  return {
      {"seed", &o.seed, 0, kExact, "the same seed and parameters give the same bytes"},
      {"layers", &o.layers, 1, 1'024, "of the model"},
      {"heads", &o.heads, 1, 1'024, "KV heads in each layer"},
      {"prompt_tokens", &o.prompt_tokens, 1, kMostTokens, "there before the first step"},
      {"tokens", &o.tokens, 0, kMostTokens, "of the output, a step each; 0: drawn, by output_…"},
      {"output_p50", &o.output_p50, 1, kMostTokens, "tokens of the output: the median"},
      {"output_p90", &o.output_p90, 1, kMostTokens, "and what 90% stay below"},
      {"output_p99", &o.output_p99, 1, kMostTokens, "and 99%"},
      {"page_tokens", &o.page_tokens, 1, 65'536, "of one layer and head"},
      {"pages_wanted", &o.pages_wanted, 2, 4'096, "that a head selects in a step"},
      {"sink_tokens", &o.sink_tokens, 0, 65'536, "at the beginning, whose pages all steps select"},
      {"recent_share", &o.recent_share, 0, 1, "of pages_wanted: the newest pages"},
      {"top_fifth_mass", &o.top_fifth_mass, 0.2, 0.999,
       "share of the attention on the first fifth of a head's selection (Zipf)"},
      {"segment_mean_tokens", &o.segment_mean_tokens, 0, kMostTokens,
       "of a step of reasoning: exponential; 0: there are none"},
      {"segment_least_tokens", &o.segment_least_tokens, 1, kMostTokens, "shorter ones are so long"},
      {"segment_most_tokens", &o.segment_most_tokens, 1, kMostTokens, "longer ones are so long"},
      {"redraw", &o.redraw, 0, 1, "share of the far pages that the next segment draws anew"},
      {"redraw_lag_steps", &o.redraw_lag_steps, 0, 1e6,
       "from a segment's first token until it draws them: exponential; 0: none"},
      {"churn_stable", &o.churn_stable, 0, 1,
       "share of the far pages that a step exchanges for pages that rest, in stable heads"},
      {"churn_unstable", &o.churn_unstable, 0, 1, "and in unstable ones"},
      {"unstable_heads", &o.unstable_heads, 0, 1, "share of the heads, whole layers first"},
      {"resting_pages", &o.resting_pages, 0, 4'096,
       "of a head, which were selected not long ago; those before them sleep"},
      {"gap_median_steps", &o.gap_median_steps, 1, 1e9,
       "until a page that sleeps, or a milestone, comes back: lognormal"},
      {"gap_sigma", &o.gap_sigma, 0, 10, "of the logarithm of the gap"},
      {"sleepers_return", &o.sleepers_return, 0, 0.95,
       "share of the pages that fall asleep and come back by themselves"},
      {"phoenix", &o.phoenix, 0, 1,
       "share of the pages from far memory that are drawn from the prompt"},
      {"copied_least", &o.copied_least, 0, 1,
       "share of the pages from far memory that a head copies from another: the least of the "
       "heads"},
      {"copied_most", &o.copied_most, 0, 1, "and the most"},
      {"return_spread_steps", &o.return_spread_steps, 0, 4'096,
       "within which a head that copies follows the one that goes first: evenly; 0: at once"},
      {"burst_steps", &o.burst_steps, 0, 0.5, "share of the steps in which many pages wake"},
      {"burst_wakes", &o.burst_wakes, 0, 1, "share of the wakes that these steps hold"},
      {"milestones", &o.milestones, 0, 1, "share of the segments that end in one"},
      {"milestone_returns", &o.milestone_returns, 0, 1e6,
       "to a milestone until it is dead: exponential"},
      {"explore", &o.explore, 0, 1, "share of the segments that explore"},
      {"verify", &o.verify, 0, 1, "that verify"},
      {"conclude", &o.conclude, 0, 1, "that conclude"},
      {"explore_gap", &o.explore_gap, 0.01, 100, "factor of milestones' gaps while exploring"},
      {"verify_gap", &o.verify_gap, 0.01, 100, "while verifying"},
      {"conclude_gap", &o.conclude_gap, 0.01, 100, "while concluding"},
      {"informativeness", &o.informativeness, 0, 1,
       "of entropy, margin and mark about the truth: 0 none, 1 all"},
  };
}

Result<void> set(DecodeOptions& options, std::string_view key, double value) {
  const auto all = fields(options);
  const auto field = std::ranges::find(all, key, &DecodeField::key);
  if (field == all.end()) {
    std::vector<std::string> known;
    for (const DecodeField& each : all) known.emplace_back(each.key);
    return refuse(fmt::format("unknown key '{}'{}", key, suggestion(key, known)));
  }
  uint64_t* const* count = std::get_if<uint64_t*>(&field->target);
  // A NaN is in no range.
  const bool fits = value >= field->least && value <= field->most;
  if (!fits || (count != nullptr && value != std::floor(value))) {
    return refuse(fmt::format("{} is a {} from {} to {}, and not {}", key,
                              count != nullptr ? "whole number" : "number", field->least,
                              field->most, value));
  }
  if (count != nullptr) {
    **count = static_cast<uint64_t>(value);
  } else {
    *std::get<double*>(field->target) = value;
  }
  return {};
}

Result<void> set(DecodeOptions& options, std::string_view key, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return refuse(fmt::format("{} is a number, and not '{}'", key, text));
  }
  return set(options, key, value);
}

Result<void> DecodeOptions::validate() const {
  const double recent = std::round(recent_share * static_cast<double>(pages_wanted));
  const uint64_t sinks = (sink_tokens + page_tokens - 1) / page_tokens;
  if (recent < 1) {
    return refuse("recent_share of pages_wanted is less than a page: the newest is always read");
  }
  if (sinks + static_cast<uint64_t>(recent) > pages_wanted) {
    return refuse("sink_tokens and recent_share take more pages than pages_wanted");
  }
  if (segment_least_tokens > segment_most_tokens) {
    return refuse("segment_least_tokens is more than segment_most_tokens");
  }
  if (output_p50 > output_p90 || output_p90 > output_p99) {
    return refuse("output_p50, output_p90 and output_p99 do not fall");
  }
  if (copied_least > copied_most) return refuse("copied_least is more than copied_most");
  if (std::abs(explore + verify + conclude - 1) > 1e-6) {
    return refuse("explore, verify and conclude are shares that add up to 1");
  }
  if (!has_segments() && milestones > 0) {
    return refuse(
        "milestones are the ends of segments: without segments (segment_mean_tokens 0) there are "
        "none");
  }
  if (burst_steps == 0 && burst_wakes > 0) {
    return refuse("burst_wakes need steps to be in: burst_steps is 0");
  }
  const uint64_t positions = (prompt_tokens + tokens) / page_tokens + 1;
  const auto pages = static_cast<double>(positions);
  if (pages * static_cast<double>(all_heads()) > kMostPages) {
    return refuse(fmt::format("so many tokens, layers and heads are more than {} pages",
                              static_cast<uint64_t>(kMostPages)));
  }
  return {};
}

Result<DecodeOptions> preset(std::string_view name) {
  if (name == kPresetNames[0]) return DecodeOptions();
  if (name == kPresetNames[1]) return normal();
  const std::vector<std::string> known(std::begin(kPresetNames), std::end(kPresetNames));
  return refuse(
      fmt::format("there is no parameter set '{}'{}: choose among {}, or name a file "
                  "that ends in .toml",
                  name, suggestion(name, known), fmt::join(known, ", ")));
}

}  // namespace farpage::decode
