#include "bench/paging/access_trace.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(TraceFuture, KnowsTheNextAccessToEachPage) {
  const auto known = TraceFuture::of(accesses_of(trace_of({{1, 2, 1}, {3, 1}})));
  ASSERT_TRUE(known.has_value());
  const TraceFuture& future = *known;
  EXPECT_EQ(future.next(0), 2u);
  EXPECT_EQ(future.next(1), prefetch::Future::kNever);
  EXPECT_EQ(future.next(2), 4u);
  EXPECT_EQ(future.next(4), prefetch::Future::kNever);
}

}  // namespace
}  // namespace farpage::paging
