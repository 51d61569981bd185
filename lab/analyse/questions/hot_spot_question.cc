#include "lab/analyse/questions/hot_spot_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace farpage::analyse {
namespace {

constexpr double kHot = 0.1;  // of the pages
constexpr double kAgrees = 0.6;

std::vector<prefetch::PageNumber> hottest(prefetch::Masses masses, uint64_t pages) {
  auto hottest = prefetch::most_looked_at(std::move(masses), kHot, pages);
  std::ranges::sort(hottest);
  return hottest;
}

}  // namespace

HotSpotQuestion::HotSpotQuestion(prefetch::Masses all, size_t parts)
    : pages_(all.size()),
      hot_(hottest(std::move(all), pages_)),
      overlap_(parts),
      attainable_(parts) {}

void HotSpotQuestion::step(const Step& step, const Ahead&, const Reuse&) {
  prefetch::Masses masses;
  for (const prefetch::Access& access : step.accesses) {
    if (access.mass > 0) masses.emplace_back(access.mass, access.page);
  }
  if (masses.empty()) return;
  const auto looked_at = hottest(std::move(masses), pages_);
  const auto fewer = static_cast<double>(std::min(looked_at.size(), hot_.size()));
  const auto more = static_cast<double>(std::max(looked_at.size(), hot_.size()));
  overlap_[step.part][0] += prefetch::jaccard(hot_, looked_at);
  overlap_[step.part][1] += 1;
  attainable_[step.part][0] += fewer / more;
  attainable_[step.part][1] += 1;
  ++queries_;
}

Finding HotSpotQuestion::end(uint64_t seed) const {
  const std::string question =
      "do single steps look most at the tenth of the pages that all of them together look at most?";
  if (queries_ < prefetch::HotSpots::kQueries) {
    return not_asked("B-H2", question,
                     fmt::format("it needs {} steps with attention, and the trace has {}",
                                 prefetch::HotSpots::kQueries, queries_));
  }
  const Estimate overlap = estimate_share(overlap_, seed);
  Finding finding = {"B-H2", question, answer_above(overlap, kAgrees), ""};
  finding.figures = {
      {"jaccard", "the Jaccard index of both, its mean over steps", overlap},
      {"attainable", "at most, as a step names fewer or more", estimate_share(attainable_, seed)}};
  finding.verdict = in_words(
      finding.answer, "steps agree on what is hot, so it can be fetched before the first asks",
      "steps do not agree on what is hot", "whether steps agree on what is hot is open");
  return finding;
}

}  // namespace farpage::analyse
