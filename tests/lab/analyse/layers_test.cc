#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "lab/analyse/analysis.h"
#include "tests/lab/analyse/traces.h"

namespace farpage::analyse {
namespace {

using prefetch::PageNumber;
using prefetch::Signal;

constexpr uint32_t kLayers = 16;

// A layer's demands for a token.
using Demands = std::vector<PageNumber> (*)(uint32_t layer, uint64_t token);

// The same accesses, with a step a token or a step a layer.
paging::AccessTrace trace_of(Demands demands, uint64_t tokens, bool is_step_a_layer) {
  Random random(4);
  SignalTrace made;
  for (uint64_t token = 0; token < tokens; ++token) {
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const uint64_t step = is_step_a_layer ? token * kLayers + layer : token;
      for (const PageNumber page : demands(layer, token)) {
        const auto mass = static_cast<float>(random.below(100)) / 1'000;
        made.add(step, page, mass, layer, static_cast<float>(random.below(100)));
      }
    }
  }
  auto trace = made.with({Signal::kMass, Signal::kScore});
  trace.layout = {kLayers, 1};
  return trace;
}

Analysis analysis_of(const paging::AccessTrace& trace, uint64_t budget_pages) {
  const auto analysis = analyse(trace, {budget_pages, 1});
  EXPECT_TRUE(analysis.has_value());
  return *analysis;
}

uint64_t pages_in(const Analysis& analysis, PageClass page_class) {
  return analysis.classes[static_cast<size_t>(page_class)].pages;
}

// Of each layer one page in each token, one in every fifth, one in every thirtieth, and one in one.
std::vector<PageNumber> of_each_class(uint32_t layer, uint64_t token) {
  const PageNumber first = layer * 4;
  std::vector<PageNumber> pages = {first};
  if (token % 5 == 0) pages.push_back(first + 1);
  if (token % 30 == 0) pages.push_back(first + 2);
  if (token == 50) pages.push_back(first + 3);
  return pages;
}
TEST(Layers, PagesAreOfTheSameClassWithAStepForEach) {
  for (const bool is_step_a_layer : {false, true}) {
    const Analysis analysis = analysis_of(trace_of(of_each_class, 100, is_step_a_layer), 0);
    EXPECT_EQ(analysis.steps, 100u);
    for (const PageClass each : {PageClass::kOneShot, PageClass::kPersistent, PageClass::kRecency,
                                 PageClass::kMilestone}) {
      EXPECT_EQ(pages_in(analysis, each), kLayers) << kPageClassNames[static_cast<size_t>(each)];
    }
  }
}

// Three tokens with the same two pages, now and then one from long ago, and some layers at rest.
std::vector<PageNumber> of_a_decoder(uint32_t layer, uint64_t token) {
  Random random(token * kLayers + layer);
  if (random.below(8) == 0) return {};
  const PageNumber first = layer * 40;
  const auto at = static_cast<PageNumber>(token / 3 * (layer + 3) % 20 * 2);
  std::vector<PageNumber> pages = {first + at, first + at + 1};
  if (random.below(3) == 0) pages.push_back(first + static_cast<PageNumber>(random.below(40)));
  return pages;
}
TEST(Layers, EveryAnswerIsTheSameWithAStepForEach) {
  const auto by_token = trace_of(of_a_decoder, 400, false);
  const auto by_layer = trace_of(of_a_decoder, 400, true);
  for (const uint64_t budget_pages : {40, 200}) {
    const Analysis analysis = analysis_of(by_token, budget_pages);
    for (const char* name : {"H1", "H2", "H3", "B-H1", "B-H2", "B-H4"}) {
      EXPECT_NE(finding_of(analysis, name).answer, Answer::kNotAsked) << name;
    }
    EXPECT_EQ(analysis_json(by_token, analysis),
              analysis_json(by_layer, analysis_of(by_layer, budget_pages)));
  }
}

}  // namespace
}  // namespace farpage::analyse
