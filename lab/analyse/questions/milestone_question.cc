#include "lab/analyse/questions/milestone_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <span>

namespace farpage::analyse {
namespace {

constexpr double kSignificant = 0.01;

// Of pages of one kind: how many, and the sums of their uses after the first and of the squares.
using Moments = Sums<3>;

double mean(const Moments& sums) {
  return ratio(sums[1], sums[0]);
}
double variance(const Moments& sums) {
  return ratio(std::max(0.0, sums[2] - sums[1] * mean(sums)), sums[0] - 1);
}

// Of the mean, if pages are independent.
Estimate interval(const Moments& sums) {
  const boost::math::students_t distribution(sums[0] - 1);
  const double half = boost::math::quantile(boost::math::complement(distribution, 0.025)) *
                      std::sqrt(variance(sums) / sums[0]);
  return {mean(sums), mean(sums) - half, mean(sums) + half};
}

// Cohen's d with the pooled standard deviation, and its interval by Hedges and Olkin's standard
// error; 0 where nothing varies.
Estimate effect(const Moments& one, const Moments& other) {
  const double pages = one[0] + other[0];
  const double pooled =
      ratio((one[0] - 1) * variance(one) + (other[0] - 1) * variance(other), pages - 2);
  const double d = ratio(mean(one) - mean(other), std::sqrt(pooled));
  const double half = 1.96 * std::sqrt(pages / (one[0] * other[0]) + d * d / (2 * pages));
  return {d, d - half, d + half};
}

// That means so far apart come from equal ones (Welch, two-sided).
double p_value(const Moments& one, const Moments& other) {
  const double a = ratio(variance(one), one[0]);
  const double b = ratio(variance(other), other[0]);
  const double apart = std::abs(mean(one) - mean(other));
  if (a + b == 0) return apart > 0 ? 0 : 1;
  const double freedom = (a + b) * (a + b) / (a * a / (one[0] - 1) + b * b / (other[0] - 1));
  const boost::math::students_t distribution(freedom);
  return 2 * boost::math::cdf(boost::math::complement(distribution, apart / std::sqrt(a + b)));
}

}  // namespace

void MilestoneQuestion::step(const Step& step, const Ahead&, const Reuse&) {
  for (const prefetch::PageNumber page : step.pages) ++steps_.at(page);
}

Finding MilestoneQuestion::end(uint64_t) const {
  const std::string question = "do labelled milestones come back more often than other pages?";
  Moments milestones = {};
  Moments others = {};
  for (size_t page = 0; page < milestones_.size(); ++page) {
    const uint64_t steps = steps_[static_cast<prefetch::PageNumber>(page)];
    if (steps == 0) continue;
    const auto reuses = static_cast<double>(steps - 1);
    Moments& sums = milestones_[page] ? milestones : others;
    sums[0] += 1;
    sums[1] += reuses;
    sums[2] += reuses * reuses;
  }
  if (milestones[0] < 2 || others[0] < 2) {
    return not_asked("H3, milestones", question,
                     fmt::format("it needs two pages of each kind: {} are milestones, {} are not",
                                 milestones[0], others[0]));
  }
  const double p = p_value(milestones, others);
  Finding finding = {"H3, milestones", question};
  finding.answer = p >= kSignificant                 ? Answer::kOpen
                   : mean(milestones) > mean(others) ? Answer::kYes
                                                     : Answer::kNo;
  finding.figures = {
      {"reuses_of_milestones", "uses of a milestone after the first, mean", interval(milestones)},
      {"reuses_of_others", "of another page", interval(others)},
      {"effect", "effect size (Cohen's d)", effect(milestones, others)}};
  finding.verdict =
      fmt::format("{} (Welch's t-test, as if pages were independent: p = {:.2g})",
                  in_words(finding.answer, "milestones come back more often than other pages",
                           "milestones come back less often than other pages",
                           "whether milestones come back more often is open"),
                  p);
  return finding;
}

}  // namespace farpage::analyse
