#include "lab/analyse/questions/recency_question.h"

#include <fmt/format.h>

#include <algorithm>

namespace farpage::analyse {
namespace {

constexpr double kForetells = 0.8;
constexpr double kDoesNot = 0.3;

}  // namespace

void RecencyQuestion::step(const Step& step, const Ahead& ahead, const Reuse& reuse) {
  foretelling_.step(
      step, ahead, reuse, std::min(budget_pages_, reuse.pages()),
      [&](prefetch::PageNumber page) { return *reuse.recency().rank(page) < budget_pages_; });
}

Finding RecencyQuestion::end(uint64_t seed) const {
  Finding finding = {
      "H1",
      fmt::format("are the {} pages used last those that the next 5 steps demand?", budget_pages_),
      Answer::kNotAsked,
      "nothing comes back after a step without it, so recency has nothing to foretell"};
  if (!foretelling_.has_reentries()) return finding;
  const Estimate recall = foretelling_.of_reentries(seed);
  const Estimate beyond = foretelling_.beyond_chance(seed);
  finding.figures = foretelling_.figures(seed);
  if (recall.low > kForetells) {
    finding.answer = Answer::kYes;
    finding.verdict = "recency foretells what comes back";
  } else if (recall.high < kDoesNot) {
    finding.answer = Answer::kNo;
    finding.verdict = "recency does not foretell what comes back";
  } else {
    finding.answer = Answer::kOpen;
    finding.verdict = "recency foretells some of what comes back";
  }
  finding.verdict += beyond.low > 0 ? ", more than chance would"
                                    : ", and it is not known to do better than chance";
  return finding;
}

}  // namespace farpage::analyse
