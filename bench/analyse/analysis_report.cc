#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "bench/analyse/analysis.h"
#include "bench/json.h"
#include "bench/paging/report_parts.h"

namespace farpage::analyse {
namespace {

constexpr double kForetells = 0.8;
constexpr double kDoesNot = 0.3;

std::string text_of(const Estimate& estimate) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", estimate.value, estimate.low, estimate.high);
}

boost::json::object json_of(const Estimate& estimate) {
  return {{"value", estimate.value}, {"low", estimate.low}, {"high", estimate.high}};
}

uint64_t sum_of(const Analysis& analysis, uint64_t PageClassShare::*member) {
  uint64_t sum = 0;
  for (const PageClassShare& share : analysis.classes) sum += share.*member;
  return sum;
}

}  // namespace

std::string verdict_on_recency(const Analysis& analysis) {
  const Estimate& recall = analysis.recall_of_reentries;
  if (recall.value == 0 && recall.high == 0 && analysis.recall_of_reentries_random.high == 0) {
    return "nothing comes back after a step without it, so recency has nothing to foretell";
  }
  const std::string beside = recall.low > analysis.recall_of_reentries_random.high
                                 ? ", more than chance would"
                                 : ", and it is not known to do better than chance";
  if (recall.low > kForetells) return "recency foretells what comes back" + beside;
  if (recall.high < kDoesNot) return "recency does not foretell what comes back" + beside;
  return "recency foretells some of what comes back" + beside;
}

std::string analysis_text(const paging::AccessTrace& trace, const Analysis& analysis) {
  std::string text =
      fmt::format("{}, {} steps\n{}", trace_line(trace), analysis.steps, left_out_lines(trace));
  text += trace.synthetic
              ? "This trace is synthetic: what it shows was put into it, and says nothing about "
                "production.\n"
              : "This trace was recorded: nothing in it says that it is synthetic.\n";
  text += "\nReuse: other pages used between two uses of one";
  if (analysis.reuse_distance_quantiles.empty()) {
    text += ": no page was used in two steps\n";
  } else {
    for (size_t i = 0; i < kQuantiles.size(); ++i) {
      text += fmt::format("{} {:.0f}% at most {}", i == 0 ? ":" : ",", 100 * kQuantiles[i],
                          analysis.reuse_distance_quantiles[i]);
    }
    text += '\n';
  }
  text += fmt::format(
      "\nOf the pages that a step demands, with the middle 95% of {} parts of the trace, "
      "resampled (seed {}):\n"
      "  persistent, the step before demanded them too   {}\n"
      "  re-entered, a step farther back did             {}\n"
      "  new                                             {}\n",
      kParts, analysis.seed, text_of(analysis.persistent), text_of(analysis.reentered),
      text_of(analysis.fresh));
  text += "\nPages by what moves them, and uses of them:\n";
  const auto pages = static_cast<double>(sum_of(analysis, &PageClassShare::pages));
  const auto accesses = static_cast<double>(sum_of(analysis, &PageClassShare::accesses));
  for (size_t i = 0; i < analysis.classes.size(); ++i) {
    const PageClassShare& share = analysis.classes[i];
    text +=
        fmt::format("  {:<17} {:>9} pages {:6.1f}%   {:>10} uses {:6.1f}%\n", kPageClassNames[i],
                    share.pages, 100 * static_cast<double>(share.pages) / pages, share.accesses,
                    100 * static_cast<double>(share.accesses) / accesses);
  }
  text += fmt::format(
      "\nH1, whether the {} pages used last are those that the next {} steps demand:\n"
      "  of all that they demand and was there          {}\n"
      "  of what comes back, this step left out         {}\n"
      "  the same by chance                             {}\n"
      "  {}\n",
      analysis.budget_pages, kAheadSteps, text_of(analysis.recall),
      text_of(analysis.recall_of_reentries), text_of(analysis.recall_of_reentries_random),
      verdict_on_recency(analysis));
  return text;
}

std::string analysis_json(const paging::AccessTrace& trace, const Analysis& analysis) {
  boost::json::object distances;
  for (size_t i = 0; i < analysis.reuse_distance_quantiles.size(); ++i) {
    distances[fmt::format("p{:.0f}", 100 * kQuantiles[i])] = analysis.reuse_distance_quantiles[i];
  }
  boost::json::object classes;
  for (size_t i = 0; i < analysis.classes.size(); ++i) {
    classes[kPageClassNames[i]] = {{"pages", analysis.classes[i].pages},
                                   {"uses", analysis.classes[i].accesses}};
  }
  return format_json(boost::json::object{
      {"trace", trace.name},
      {"synthetic", trace.synthetic},
      {"pages", trace.pages},
      {"accesses", trace.accesses},
      {"left_out", paging::left_out_json(trace)},
      {"steps", analysis.steps},
      {"seed", analysis.seed},
      {"reuse_distance", std::move(distances)},
      {"persistent", json_of(analysis.persistent)},
      {"reentered", json_of(analysis.reentered)},
      {"new", json_of(analysis.fresh)},
      {"classes", std::move(classes)},
      {"h1",
       {{"budget_pages", analysis.budget_pages},
        {"recall", json_of(analysis.recall)},
        {"recall_of_reentries", json_of(analysis.recall_of_reentries)},
        {"recall_of_reentries_random", json_of(analysis.recall_of_reentries_random)},
        {"verdict", verdict_on_recency(analysis)}}}});
}

}  // namespace farpage::analyse
