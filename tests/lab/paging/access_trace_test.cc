#include "lab/paging/access_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace farpage::paging {
namespace {

Trace trace_of(const std::vector<std::vector<uint64_t>>& requests) {
  Trace trace;
  trace.synthetic = true;
  for (const auto& ids : requests) trace.requests.push_back({0, 0, 0, ids});
  return trace;
}

TEST(AccessTrace, EachBlockIsAPageAndEachRequestAStep) {
  const AccessTrace trace = accesses_of(trace_of({{70, 50}, {}, {50, 90}}));
  EXPECT_EQ(trace.pages, 3u);
  EXPECT_TRUE(trace.synthetic);
  ASSERT_EQ(trace.accesses, 4u);
  std::vector<prefetch::Access> all;
  ASSERT_TRUE(for_each_access(trace, [&](const auto& access) { all.push_back(access); }));
  ASSERT_EQ(all.size(), 4u);
  const std::vector<prefetch::PageNumber> pages = {0, 1, 1, 2};
  const std::vector<uint64_t> steps = {0, 0, 2, 2};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].number, i);
    EXPECT_EQ(all[i].page, pages[i]);
    EXPECT_EQ(all[i].step, steps[i]);
  }
}

TEST(AccessTrace, OfSessionsTheTurnIsTheCategoryAndStepsTellWhoseTheyAre) {
  Trace trace = trace_of({{1, 2}, {3}, {4}, {5}});
  const std::vector<uint32_t> turns = {0, 7, 1'023, 1'024};
  for (size_t i = 0; i < turns.size(); ++i) trace.requests[i].turn = turns[i];
  for (size_t i = 0; i < turns.size(); ++i) trace.requests[i].session = i % 2;
  EXPECT_TRUE(accesses_of(trace).signals.none());
  EXPECT_TRUE(accesses_of(trace).sequences.empty());
  trace.has_sessions = true;
  const AccessTrace accesses = accesses_of(trace);
  EXPECT_TRUE(accesses.signals.test(prefetch::index_of(prefetch::Signal::kCategory)));
  EXPECT_EQ(accesses.signals.count(), 1u);
  EXPECT_THAT(accesses.sequences, testing::ElementsAre(0, 1, 0, 1));
  std::vector<uint32_t> categories;
  ASSERT_TRUE(for_each_access(accesses,
                              [&](const auto& access) { categories.push_back(access.category); }));
  EXPECT_THAT(categories, testing::ElementsAre(0, 0, 7, 1'023, 1'023));
}

TEST(AccessTrace, OfAFileIsReadAgainByEachStreamAndNoFurtherThanAsked) {
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  std::ofstream file(path);
  for (const char* ids : {"[7, 5]", "[]", "[5, 9]", "[4]"}) {
    file << R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": )" << ids
         << "}\n";
  }
  file.close();
  const auto trace = accesses_of_file(open_mooncake_trace, path, 3);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_FALSE(trace->synthetic);
  EXPECT_EQ(trace->name, path);
  EXPECT_EQ(trace->pages, 3u);
  EXPECT_EQ(trace->accesses, 4u);
  for (int time = 0; time < 2; ++time) {
    std::vector<std::pair<prefetch::PageNumber, uint64_t>> all;
    ASSERT_TRUE(for_each_access(
        *trace, [&](const auto& access) { all.emplace_back(access.page, access.step); }));
    EXPECT_THAT(all, testing::ElementsAre(testing::Pair(0, 0), testing::Pair(1, 0),
                                          testing::Pair(1, 2), testing::Pair(2, 2)));
  }
  std::ofstream(path, std::ios::app) << "rubbish\n";
  EXPECT_TRUE(accesses_of_file(open_mooncake_trace, path, 3).has_value());
  const auto whole = accesses_of_file(open_mooncake_trace, path, 0);
  ASSERT_FALSE(whole.has_value());
  EXPECT_THAT(whole.error().message, testing::HasSubstr(path + ":5"));
  EXPECT_FALSE(accesses_of_file(open_mooncake_trace, folder / "none", 0).has_value());
}
TEST(AccessTrace, OfAFileOfSessionsStepsTellWhoseTheyAre) {
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  std::ofstream(path) << R"({"session_id": "a", "hash_ids": [1]})"
                         "\n"
                         R"({"session_id": "b", "hash_ids": [1, 2]})"
                         "\n"
                         R"({"session_id": "a", "hash_ids": [3]})";
  const auto trace = accesses_of_file(open_mooncake_trace, path, 0);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_TRUE(trace->signals.test(prefetch::index_of(prefetch::Signal::kCategory)));
  EXPECT_THAT(trace->sequences, testing::ElementsAre(0, 1, 0));
  std::vector<uint32_t> turns;
  ASSERT_TRUE(for_each_access(*trace, [&](const auto& each) { turns.push_back(each.category); }));
  EXPECT_THAT(turns, testing::ElementsAre(0, 0, 0, 1));
  std::ofstream(path) << R"({"hash_ids": [1]})";
  EXPECT_TRUE(accesses_of_file(open_mooncake_trace, path, 0)->sequences.empty());
}
TEST(AccessTrace, OfAFileThatChangesMeanwhileIsAnError) {
  const TempDir folder;
  const std::string path = folder / "trace.jsonl";
  std::ofstream(path)
      << R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1]})"
      << "\n";
  const auto trace = accesses_of_file(open_mooncake_trace, path, 0);
  ASSERT_TRUE(trace.has_value());
  std::ofstream(path, std::ios::app)
      << R"({"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1]})"
      << "\n";
  const auto grown = for_each_access(*trace, [](const auto&) {});
  ASSERT_FALSE(grown.has_value());
  EXPECT_THAT(grown.error().message, testing::HasSubstr("has changed"));
  std::ofstream(path) << "rubbish\n";
  EXPECT_FALSE(for_each_access(*trace, [](const auto&) {}).has_value());
}

TEST(TraceFuture, KnowsTheNextAccessToEachPage) {
  const auto known = TraceFuture::of(accesses_of(trace_of({{1, 2, 1}, {3, 1}})));
  ASSERT_TRUE(known.has_value());
  const TraceFuture& future = *known;
  EXPECT_EQ(future.next(0), 2u);
  EXPECT_EQ(future.next(1), prefetch::Future::kNever);
  EXPECT_EQ(future.next(2), 4u);
  EXPECT_EQ(future.next(4), prefetch::Future::kNever);
  EXPECT_THAT(future.step_begins(), testing::ElementsAre(0, 3));
}

}  // namespace
}  // namespace farpage::paging
