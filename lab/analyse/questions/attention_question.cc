#include "lab/analyse/questions/attention_question.h"

namespace farpage::analyse {
namespace {

constexpr double kBeyondChance = 0.1;

}  // namespace

void AttentionQuestion::step(const Step& step, const Ahead& ahead, const Reuse& reuse) {
  for (const prefetch::Access& access : step.accesses) top_.add(access.page, access.mass);
  foretelling_.step(step, ahead, reuse, top_.top_pages(),
                    [&](prefetch::PageNumber page) { return top_.is_top(page); });
}

Finding AttentionQuestion::end(uint64_t seed) const {
  Finding finding = {"H3",
                     "is the fifth of the pages with the most attention so far what the next 10 "
                     "steps demand?",
                     Answer::kNotAsked,
                     "nothing comes back after a step without it, so attention has nothing to "
                     "foretell"};
  if (!foretelling_.has_reentries()) return finding;
  const Estimate beyond = foretelling_.beyond_chance(seed);
  finding.answer = answer_above(beyond, kBeyondChance);
  finding.figures = foretelling_.figures(seed);
  finding.verdict = in_words(
      finding.answer, "attention foretells what comes back by more than 10 points beyond chance",
      "attention foretells what comes back no more than 10 points better than chance",
      "whether attention foretells what comes back by 10 points more than chance is open");
  return finding;
}

}  // namespace farpage::analyse
