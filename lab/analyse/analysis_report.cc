#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cctype>

#include "lab/analyse/analysis.h"
#include "lab/paging/report_parts.h"
#include "report/json.h"

namespace farpage::analyse {
namespace {

std::string text_of(const Estimate& estimate) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", estimate.value, estimate.low, estimate.high);
}

std::string origin_of(const paging::AccessTrace& trace) {
  return trace.synthetic
             ? "This trace is synthetic: what it shows was put into it, and says nothing about "
               "production.\n"
             : "Nothing in this trace says that it is synthetic.\n";
}

constexpr std::array<uint64_t, 5> kPrinted = {10, 25, 50, 75, 90};

std::string distances_text(const Analysis& analysis) {
  std::string text = "\nReuse: other pages used between two uses of one";
  if (analysis.distances.empty()) return text + ": no page was used in two steps\n";
  char before = ':';
  for (const DistanceQuantile& each : analysis.distances) {
    if (std::ranges::find(kPrinted, each.percent) == kPrinted.end()) continue;
    text += fmt::format("{} {}% at most {}", before, each.percent, each.pages);
    before = ',';
  }
  return text + '\n';
}

std::string classes_text(const Analysis& analysis) {
  std::string text = "\nPages by what moves them, and uses of them:\n";
  uint64_t pages = 0;
  uint64_t uses = 0;
  for (const PageClassShare& share : analysis.classes) {
    pages += share.pages;
    uses += share.uses;
  }
  for (size_t i = 0; i < analysis.classes.size(); ++i) {
    const PageClassShare& share = analysis.classes[i];
    text += fmt::format("  {:<17} {:>9} pages {:6.1f}%   {:>10} uses {:6.1f}%", kPageClassNames[i],
                        share.pages, 100 * ratio(share.pages, pages), share.uses,
                        100 * ratio(share.uses, uses));
    if (analysis.has_labels) text += fmt::format("   {:>9} labelled milestones", share.milestones);
    text += '\n';
  }
  return text;
}

std::string finding_text(const Finding& finding) {
  std::string text = fmt::format("\n{}: {}\n", finding.name, finding.question);
  size_t width = 0;
  for (const Figure& figure : finding.figures) width = std::max(width, figure.label.size());
  for (const Figure& figure : finding.figures) {
    text += fmt::format("  {:<{}}  {}\n", figure.label, width, text_of(figure.estimate));
  }
  return text + fmt::format("  {}: {}\n", kAnswerNames[static_cast<size_t>(finding.answer)],
                            finding.verdict);
}

boost::json::object json_of(const Estimate& estimate) {
  return {{"value", estimate.value}, {"low", estimate.low}, {"high", estimate.high}};
}

// "H3, milestones" → "h3_milestones".
std::string key_of(std::string_view name) {
  std::string key;
  for (const char each : name) {
    if (std::isalnum(static_cast<unsigned char>(each)) != 0) {
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
    } else if (!key.ends_with('_')) {
      key += '_';
    }
  }
  return key;
}

boost::json::object json_of(const Finding& finding) {
  boost::json::object json = {{"question", finding.question},
                              {"answer", kAnswerNames[static_cast<size_t>(finding.answer)]},
                              {"verdict", finding.verdict}};
  for (const Figure& figure : finding.figures) json[figure.key] = json_of(figure.estimate);
  return json;
}

boost::json::array kept_json(const Analysis& analysis) {
  boost::json::array runs;
  for (const Kept& kept : analysis.kept) {
    runs.push_back({{"policy", kept.policy},
                    {"budget_pages", kept.budget_pages},
                    {"hit_rate", json_of(kept.hit_rate(analysis.seed))}});
  }
  return runs;
}

}  // namespace

std::string analysis_text(const paging::AccessTrace& trace, const Analysis& analysis) {
  std::string text =
      fmt::format("{}, {} steps\n{}", trace_line(trace), analysis.steps, left_out_lines(trace));
  text += origin_of(trace) + distances_text(analysis);
  text += fmt::format(
      "\nOf the pages that a step demands, with the middle 95% of {} {}, resampled (seed {}):\n"
      "  persistent, the step before demanded them too   {}\n"
      "  re-entered, a step farther back did             {}\n"
      "  new                                             {}\n",
      analysis.parts, analysis.parts_are_sequences ? "sequences" : "parts of the trace",
      analysis.seed, text_of(analysis.persistent), text_of(analysis.reentered),
      text_of(analysis.fresh));
  text += classes_text(analysis);
  for (const Finding& finding : analysis.findings) text += finding_text(finding);
  return text;
}

std::string analysis_json(const paging::AccessTrace& trace, const Analysis& analysis) {
  boost::json::object distances;
  for (const DistanceQuantile& each : analysis.distances) {
    distances[fmt::format("p{}", each.percent)] = each.pages;
  }
  boost::json::object classes;
  for (size_t i = 0; i < analysis.classes.size(); ++i) {
    const PageClassShare& share = analysis.classes[i];
    boost::json::object json = {{"pages", share.pages}, {"uses", share.uses}};
    if (analysis.has_labels) json["milestones"] = share.milestones;
    classes[kPageClassNames[i]] = std::move(json);
  }
  boost::json::object json = {{"trace", trace.name},
                              {"synthetic", trace.synthetic},
                              {"pages", trace.pages},
                              {"accesses", trace.accesses},
                              {"left_out", paging::left_out_json(trace)},
                              {"steps", analysis.steps},
                              {"budget_pages", analysis.budget_pages},
                              {"seed", analysis.seed},
                              {"reuse_distance", std::move(distances)},
                              {"persistent", json_of(analysis.persistent)},
                              {"reentered", json_of(analysis.reentered)},
                              {"new", json_of(analysis.fresh)},
                              {"classes", std::move(classes)}};
  for (const Finding& finding : analysis.findings) {
    json[key_of(finding.name)] = json_of(finding);
  }
  if (!analysis.kept.empty()) json["kept"] = kept_json(analysis);
  return format_json(json);
}

}  // namespace farpage::analyse
