#include "lab/paging/paging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "prefetch/registry/registry.h"

namespace farpage::paging {
namespace {

using prefetch::PageNumber;
using testing::HasSubstr;

AccessTrace trace_of(const std::vector<PageNumber>& pages) {
  std::vector<prefetch::Access> accesses;
  for (const PageNumber page : pages) accesses.push_back({accesses.size(), accesses.size(), page});
  AccessTrace trace = trace_of_accesses("test", true, std::move(accesses));
  trace.signals.set();
  return trace;
}

std::vector<prefetch::ChosenPolicy> chosen(const std::vector<std::string>& names) {
  std::vector<prefetch::ChosenPolicy> policies;
  for (const std::string& name : names) policies.push_back(*prefetch::choose_policy(name));
  return policies;
}

std::vector<PagingRun> runs_of(const AccessTrace& trace, const std::vector<std::string>& names,
                               const std::vector<uint64_t>& budgets_pages) {
  auto runs = page_all(trace, chosen(names), budgets_pages, [](size_t) {});
  EXPECT_TRUE(runs.has_value());
  return runs ? std::move(*runs) : std::vector<PagingRun>();
}

TEST(Paging, CountsHitsFirstAccessesAndEvictions) {
  const AccessTrace trace = trace_of({0, 1, 0, 2, 1, 1});
  const auto runs = runs_of(trace, {"lru"}, {2});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].result.accesses, 6u);
  EXPECT_EQ(runs[0].result.hits, 2u);
  EXPECT_EQ(runs[0].result.first_accesses, 3u);
  EXPECT_EQ(runs[0].result.evictions, 2u);
  EXPECT_DOUBLE_EQ(runs[0].result.hit_rate(), 2.0 / 6);
}

TEST(Paging, ABudgetOfNothingHasNoHits) {
  for (const PagingRun& run :
       runs_of(trace_of({0, 0, 0}), {"lru", "s3fifo", "belady", "even/lru"}, {0})) {
    EXPECT_EQ(run.result.hits, 0u) << run.policy;
    EXPECT_EQ(run.result.evictions, 0u) << run.policy;
  }
}

TEST(Paging, ABudgetForAllHasOnlyFirstMisses) {
  const AccessTrace trace = trace_of({0, 1, 2, 0, 1, 2});
  std::vector<std::string> names = {"even/lru", "reasonalloc/lru"};
  for (const prefetch::PolicyInfo& info : prefetch::policies()) names.emplace_back(info.name);
  for (const std::string& name : names) {
    const auto runs = runs_of(trace, {name}, {3, 1'000'000'000});
    EXPECT_EQ(runs[0].result.hits, 3u) << name;
    EXPECT_EQ(runs[1].result.hits, 3u) << name;
    EXPECT_EQ(runs[1].result.evictions, 0u) << name;
  }
}

TEST(Paging, APolicyWhoseSignalIsNotThereIsRefused) {
  AccessTrace trace = trace_of({0, 1});
  trace.signals.reset();
  for (const char* name : {"attention", "h2o", "importance", "lazy", "raas"}) {
    const auto runs =
        page_all(trace, chosen({"lru", name}), std::vector<uint64_t>{1}, [](size_t) {});
    ASSERT_FALSE(runs.has_value()) << name;
    EXPECT_THAT(runs.error().message, HasSubstr(std::string(name) + " needs the column 'mass'"));
  }
  const auto divided =
      page_all(trace, chosen({"lru", "reasonalloc/lru"}), std::vector<uint64_t>{1}, [](size_t) {});
  ASSERT_FALSE(divided.has_value());
  EXPECT_THAT(divided.error().message, HasSubstr("reasonalloc needs the column 'mass'"));
}

TEST(Paging, RunsStandInTheOrderTheyWereAskedFor) {
  const auto runs = runs_of(trace_of({0, 1, 2, 0}), {"fifo", "lru"}, {2, 1});
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[1].policy, "fifo");
  EXPECT_EQ(runs[1].budget_pages, 1u);
  EXPECT_EQ(runs[2].policy, "lru");
  EXPECT_EQ(runs[2].budget_pages, 2u);
}

// The most hits that any choice of what goes can have.
uint64_t most_hits(const std::vector<PageNumber>& pages, size_t at,
                   const std::set<PageNumber>& resident, size_t budget) {
  if (at == pages.size()) return 0;
  if (resident.contains(pages[at])) return 1 + most_hits(pages, at + 1, resident, budget);
  std::set<PageNumber> next = resident;
  next.insert(pages[at]);
  if (next.size() <= budget) return most_hits(pages, at + 1, next, budget);
  uint64_t most = 0;
  for (const PageNumber victim : resident) {
    next.erase(victim);
    most = std::max(most, most_hits(pages, at + 1, next, budget));
    next.insert(victim);
  }
  return most;
}

RC_GTEST_PROP(PagingProperty, NothingBeatsBelady, (uint32_t seed)) {
  Random random(seed);
  std::vector<PageNumber> pages;
  while (pages.size() < 11) pages.push_back(static_cast<PageNumber>(random.below(5)));
  const uint64_t budget = 1 + random.below(3);
  const auto runs = runs_of(trace_of(pages), {"belady"}, {budget});
  RC_ASSERT(runs[0].result.hits == most_hits(pages, 0, {}, budget));
}

TEST(PagingReport, IsReadByPeopleAndPrograms) {
  const AccessTrace trace = trace_of({0, 1, 0, 2, 1, 1});
  const auto runs = runs_of(trace, {"lru", "belady"}, {2});
  const std::string table = paging_table(trace, runs);
  EXPECT_THAT(table, HasSubstr("test (synthetic): 6 accesses to 3 pages; of an endless memory "
                               "0.5000 would be hits"));
  EXPECT_THAT(table, HasSubstr("lru                2    0.3333             2             2"));
  AccessTrace named = trace;
  named.name = "a, \"b\"";
  EXPECT_THAT(paging_csv(named, runs), HasSubstr("\n\"a, \"\"b\"\"\",true,lru,2,"));
  const std::string csv = paging_csv(trace, runs);
  EXPECT_THAT(csv, HasSubstr("\ntest,true,lru,2,6,2,3,2,0.3333333333333333\n"));
  EXPECT_THAT(paging_json(trace, runs), HasSubstr("\"policy\": \"belady\""));
  const std::string html = paging_html(trace, runs);
  EXPECT_THAT(html, HasSubstr("This trace is synthetic"));
  EXPECT_THAT(html, HasSubstr("Hit rate against budget"));
  EXPECT_THAT(html, HasSubstr(">belady</text>"));
  AccessTrace damaged = trace;
  damaged.skipped = {{"of <no> use", 7}};
  EXPECT_THAT(paging_table(damaged, runs), HasSubstr("left out: 7 accesses, of <no> use\n"));
  EXPECT_THAT(paging_html(damaged, runs), HasSubstr("Left out: 7 accesses, of &lt;no&gt; use."));
  EXPECT_THAT(paging_json(damaged, runs), HasSubstr("\"reason\": \"of <no> use\""));
  EXPECT_THAT(html, HasSubstr("<td>lru</td><td>2</td><td>0.3333</td>"));
}

// Of the reference for this trace: docs/prefetch.md.
TEST(PagingOfMooncake, LruAndBeladyAreAsKnown) {
  const char* folder = std::getenv("FARPAGE_TRACES");
  const std::string path =
      std::string(folder == nullptr ? "traces" : folder) + "/mooncake/conversation_trace.jsonl";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "traces: FARPAGE_TRACES has no mooncake/conversation_trace.jsonl: "
                    "scripts/fetch-traces brings it";
  }
  const auto opened = accesses_of_file(open_mooncake_trace, path, 0);
  ASSERT_TRUE(opened.has_value());
  const AccessTrace& trace = *opened;
  EXPECT_EQ(trace.accesses, 288'500u);
  EXPECT_EQ(trace.pages, 182'790u);
  const auto runs = runs_of(trace, {"lru", "belady"}, {5'000, 10'000, 30'000, 50'000});
  const std::vector<double> known = {0.110, 0.211, 0.326, 0.355, 0.341, 0.366, 0.366, 0.366};
  for (size_t i = 0; i < known.size(); ++i) {
    EXPECT_NEAR(runs[i].result.hit_rate(), known[i], 0.0005)
        << runs[i].policy << " " << runs[i].budget_pages;
  }
}

}  // namespace
}  // namespace farpage::paging
