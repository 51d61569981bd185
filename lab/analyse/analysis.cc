#include "lab/analyse/analysis.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lab/analyse/questions/attention_question.h"
#include "lab/analyse/questions/head_question.h"
#include "lab/analyse/questions/hot_spot_question.h"
#include "lab/analyse/questions/importance_question.h"
#include "lab/analyse/questions/milestone_question.h"
#include "lab/analyse/questions/recency_question.h"

namespace farpage::analyse {
namespace {

using paging::AccessTrace;
using prefetch::Access;
using prefetch::PageNumber;
using prefetch::Signal;

// All attention that each page got, of those that got any.
Result<prefetch::Masses> masses_of(const AccessTrace& trace) {
  prefetch::PerPage<double> mass;
  auto read = for_each_access(trace, [&](const Access& access) {
    mass.at(access.page) += static_cast<double>(access.mass);
  });
  return read.map([&] {
    prefetch::Masses masses;
    for (PageNumber page = 0; page < trace.pages; ++page) {
      if (mass[page] > 0) masses.emplace_back(mass[page], page);
    }
    return masses;
  });
}

// A question that needs something that is not there.
class Unasked final : public Question {
 public:
  Unasked(std::string_view name, std::string question, std::string why)
      : finding_(not_asked(name, std::move(question), std::move(why))) {}

  void step(const Step&, const Ahead&, const Reuse&) override {}
  Finding end(uint64_t) const override { return finding_; }

 private:
  const Finding finding_;
};

std::unique_ptr<Question> without_mass(std::string_view name, std::string question) {
  return std::make_unique<Unasked>(name, std::move(question),
                                   "it needs the column 'mass', which the trace does not have");
}

// The questions that one reading of the trace answers.
Result<std::vector<std::unique_ptr<Question>>> questions_of(const AccessTrace& trace,
                                                            uint64_t budget_pages, size_t parts,
                                                            const AnalysisOptions& options) {
  const bool has_mass = trace.signals.test(index_of(Signal::kMass));
  std::vector<std::unique_ptr<Question>> questions;
  questions.push_back(std::make_unique<RecencyQuestion>(budget_pages, parts));
  questions.push_back(std::make_unique<HeadQuestion>(budget_pages, has_mass, parts));
  if (has_mass) {
    auto masses = masses_of(trace);
    if (!masses) return tl::unexpected(masses.error());
    questions.push_back(std::make_unique<AttentionQuestion>(parts));
    questions.push_back(std::make_unique<HotSpotQuestion>(std::move(*masses), parts));
  } else {
    questions.push_back(without_mass("H3", "does attention foretell what comes back?"));
    questions.push_back(without_mass("B-H2", "do single steps agree on what is hot?"));
  }
  if (options.milestones) {
    questions.push_back(std::make_unique<MilestoneQuestion>(*options.milestones));
  } else {
    questions.push_back(std::make_unique<Unasked>(
        "H3, milestones", "do milestones come back more often than other pages?",
        "it needs a file that says which pages are milestones (--labels)"));
  }
  return questions;
}

std::vector<DistanceQuantile> distances_of(const Reuse& reuse) {
  std::vector<DistanceQuantile> distances;
  if (!reuse.has_distances()) return distances;
  for (uint64_t percent = 5; percent < 100; percent += 5) {
    distances.push_back({percent, reuse.distance(static_cast<double>(percent) / 100)});
  }
  return distances;
}

// Pages whose accesses were all left out have a number too, and are none.
void classify(const AccessTrace& trace, const Reuse& reuse, const AnalysisOptions& options,
              Analysis& analysis) {
  for (PageNumber page = 0; page < trace.pages; ++page) {
    if (reuse.steps_with(page) == 0) continue;
    PageClassShare& share = analysis.classes[static_cast<size_t>(reuse.class_of(page))];
    ++share.pages;
    share.uses += reuse.steps_with(page);
    if (options.milestones && (*options.milestones)[page]) ++share.milestones;
  }
}

}  // namespace

uint64_t passes_over(const AccessTrace& trace) {
  const uint64_t to_count = 1;
  const uint64_t for_masses = trace.signals.test(index_of(Signal::kMass)) ? 1 : 0;
  const uint64_t step_by_step = 1;
  return to_count + for_masses + step_by_step + passes_of_importance(trace);
}

Result<Analysis> analyse(const AccessTrace& trace, const AnalysisOptions& options) {
  const auto parts = parts_of(trace);
  if (!parts) return tl::unexpected(parts.error());
  if (parts->steps() == 0) {
    return fail(Code::kInvalid, "the trace has no accesses: there is nothing to say");
  }
  const uint64_t budget_pages =
      options.budget_pages == 0 ? std::max<uint64_t>(1, trace.pages / 10) : options.budget_pages;
  const auto questions = questions_of(trace, budget_pages, parts->count(), options);
  if (!questions) return tl::unexpected(questions.error());
  Reuse reuse(parts->count());
  auto read = for_each_step(trace, *parts, [&](const Step& step, const Ahead& ahead) {
    reuse.step(step);
    for (const auto& question : *questions) question->step(step, ahead, reuse);
  });
  if (!read) return tl::unexpected(read.error());

  Analysis analysis;
  analysis.steps = parts->steps();
  analysis.budget_pages = budget_pages;
  analysis.seed = options.seed;
  analysis.parts = parts->count();
  analysis.parts_are_sequences = parts->are_sequences();
  analysis.has_labels = options.milestones.has_value();
  analysis.distances = distances_of(reuse);
  analysis.persistent = reuse.persistent(options.seed);
  analysis.reentered = reuse.reentered(options.seed);
  analysis.fresh = reuse.fresh(options.seed);
  classify(trace, reuse, options, analysis);
  for (const auto& question : *questions) {
    analysis.findings.push_back(question->end(options.seed));
  }
  auto importance = ask_importance(trace, *parts, budget_pages, options.seed);
  if (!importance) return tl::unexpected(importance.error());
  analysis.findings.push_back(std::move(importance->finding));
  analysis.kept = std::move(importance->kept);
  auto post_hoc = ask_post_hoc(trace, *parts, budget_pages, options.seed);
  if (!post_hoc) return tl::unexpected(post_hoc.error());
  analysis.findings.push_back(std::move(*post_hoc));
  return analysis;
}

}  // namespace farpage::analyse
