#include "lab/analyse/questions/importance_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lab/analyse/measures/ranked_trace.h"

namespace farpage::analyse {
namespace {

using prefetch::Signal;

// Each of the policies in memories of so many times the budget, where that is a page at least; the
// budget itself first.
constexpr std::array<std::string_view, 4> kPolicies = {"importance", "lru", "lfu", "belady"};
constexpr std::array<double, 4> kBudgets = {1, 0.25, 0.5, 2};

constexpr double kGain = 1.2;
constexpr double kAsGood = 0.8;

bool has(const paging::AccessTrace& trace, Signal signal) {
  return trace.signals.test(index_of(signal));
}

// The gain in the later half of the trace, less that in the first.
Estimate growth(const Kept& one, const Kept& other, uint64_t seed) {
  std::vector<Sums<4>> parts;
  for (size_t part = 0; part < one.hits.size(); ++part) {
    const Sums<3>& of_one = one.hits[part];
    const Sums<3>& of_other = other.hits[part];
    parts.push_back({of_one[0] - of_one[2], of_other[0] - of_other[2], of_one[2], of_other[2]});
  }
  return estimate(std::span<const Sums<4>>(parts), seed, [](const Sums<4>& sums) {
    return ratio(sums[2], sums[3]) - ratio(sums[0], sums[1]);
  });
}

}  // namespace

uint64_t passes_of_importance(const paging::AccessTrace& trace) {
  if (!has(trace, Signal::kMass)) return 0;
  const uint64_t to_see_ahead = 1;
  const uint64_t rankings = has(trace, Signal::kScore) ? 2 : 0;
  return to_see_ahead + kPolicies.size() * kBudgets.size() + rankings;
}

Result<ImportanceAnswer> ask_importance(const paging::AccessTrace& trace, const Parts& parts,
                                        uint64_t budget_pages, uint64_t seed) {
  const std::string question = fmt::format(
      "do {} pages chosen by importance hit a fifth more than those used last?", budget_pages);
  if (!has(trace, Signal::kMass)) {
    return ImportanceAnswer{
        not_asked("B-H1", question, "it needs the column 'mass', which the trace does not have"),
        {}};
  }
  std::vector<KeptRun> runs;
  for (const double times : kBudgets) {
    // More than all pages keep what all do.
    const auto budget =
        static_cast<uint64_t>(times * static_cast<double>(std::min(budget_pages, trace.pages)));
    if (budget == 0) continue;
    for (const std::string_view policy : kPolicies) runs.push_back({std::string(policy), budget});
  }
  auto kept = kept_by(trace, parts, runs);
  if (!kept) return tl::unexpected(kept.error());
  const Kept& importance = (*kept)[0];
  const Kept& lru = (*kept)[1];
  Finding finding = {"B-H1", question, answer_above(beyond_times(importance, kGain, lru, seed), 0),
                     ""};
  for (size_t i = 0; i < kPolicies.size(); ++i) {
    finding.figures.push_back(
        {kPolicies[i], fmt::format("hit rate of {}", kPolicies[i]), (*kept)[i].hit_rate(seed)});
  }
  finding.verdict = in_words(finding.answer, "importance hits a fifth more than lru",
                             "importance does not hit a fifth more than lru",
                             "whether importance hits a fifth more than lru is open");
  if (const Estimate gain = times(importance, lru, seed); gain.low > 0) {
    const Estimate grows = growth(importance, lru, seed);
    finding.figures.push_back({"gain", "importance over lru", gain});
    finding.figures.push_back({"growth", "the same in the later half, less the first", grows});
    finding.verdict += grows.low > 0    ? ", and its gain grows with the context"
                       : grows.high < 0 ? ", and its gain shrinks as the context grows"
                                        : ", and its gain is not known to grow with the context";
  }
  return ImportanceAnswer{std::move(finding), std::move(*kept)};
}

Result<Finding> ask_post_hoc(const paging::AccessTrace& trace, const Parts& parts,
                             uint64_t budget_pages, uint64_t seed) {
  const std::string question =
      "does the importance that attention gives afterwards hit four fifths of what the engine's "
      "own "
      "ranking does?";
  if (!has(trace, Signal::kMass) || !has(trace, Signal::kScore)) {
    return not_asked("B-H4", question,
                     "it needs the columns 'mass' and 'score', which the trace does not both have");
  }
  std::vector<Kept> kept;  // by attention, and by the engine's ranking
  for (const Signal signal : {Signal::kMass, Signal::kScore}) {
    auto one = kept_by(ranked_by(trace, signal), parts, {{"importance", budget_pages}});
    if (!one) return tl::unexpected(one.error());
    kept.push_back(std::move(one->front()));
  }
  const Kept& post_hoc = kept[0];
  const Kept& native = kept[1];
  Finding finding = {"B-H4", question,
                     answer_above(beyond_times(post_hoc, kAsGood, native, seed), 0), ""};
  finding.figures = {{"post_hoc", "hit rate by attention", post_hoc.hit_rate(seed)},
                     {"native", "hit rate by the engine's ranking", native.hit_rate(seed)}};
  if (const Estimate share = times(post_hoc, native, seed); share.low > 0) {
    finding.figures.push_back({"times", "the first over the second", share});
  }
  finding.verdict = in_words(
      finding.answer,
      "attention afterwards is at least four fifths as good as the engine's ranking",
      "attention afterwards is less than four fifths as good as the engine's ranking",
      "whether attention afterwards is four fifths as good as the engine's ranking is open");
  return finding;
}

}  // namespace farpage::analyse
