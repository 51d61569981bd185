#include "replay/traces/trace_generator.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace farpage {
namespace {

bool same(const Trace& left, const Trace& right) {
  if (left.requests.size() != right.requests.size()) return false;
  for (size_t i = 0; i < left.requests.size(); ++i) {
    const TraceRequest& a = left.requests[i];
    const TraceRequest& b = right.requests[i];
    if (a.timestamp_ms != b.timestamp_ms || a.input_length != b.input_length ||
        a.output_length != b.output_length || a.hash_ids != b.hash_ids) {
      return false;
    }
  }
  return true;
}

TEST(TraceGenerator, TheSeedAloneDecides) {
  EXPECT_TRUE(same(generate_trace({7, 500}), generate_trace({7, 500})));
  EXPECT_FALSE(same(generate_trace({7, 500}), generate_trace({8, 500})));
}

TEST(TraceGenerator, LooksLikeATrace) {
  const Trace trace = generate_trace({1, 2'000});
  EXPECT_TRUE(trace.synthetic);
  ASSERT_EQ(trace.requests.size(), 2'000u);
  uint64_t before_ms = 0;
  uint64_t repeated = 0;
  std::unordered_set<uint64_t> seen;
  for (const TraceRequest& request : trace.requests) {
    EXPECT_GE(request.timestamp_ms, before_ms);
    before_ms = request.timestamp_ms;
    ASSERT_FALSE(request.hash_ids.empty());
    EXPECT_LE(request.input_length, request.hash_ids.size() * 512);
    EXPECT_GT(request.input_length, (request.hash_ids.size() - 1) * 512);
    std::unordered_set<uint64_t> own;
    for (const uint64_t id : request.hash_ids) {
      EXPECT_TRUE(own.insert(id).second) << "a prefix repeats a block";
      repeated += seen.insert(id).second ? 0 : 1;
    }
  }
  const double share = static_cast<double>(repeated) / static_cast<double>(trace.pages());
  EXPECT_GT(share, 0.2);
  EXPECT_LT(share, 0.9);
}

// Equal ids are equal prefixes: what stands before an id is the same wherever it occurs.
TEST(TraceGenerator, IdsAreChained) {
  std::vector<uint64_t> before;
  for (const TraceRequest& request : generate_trace({3, 1'000}).requests) {
    uint64_t previous = UINT64_MAX;
    for (const uint64_t id : request.hash_ids) {
      if (id >= before.size()) before.resize(id + 1, UINT64_MAX - 1);
      if (before[id] == UINT64_MAX - 1) before[id] = previous;
      EXPECT_EQ(before[id], previous) << id;
      previous = id;
    }
  }
}

}  // namespace
}  // namespace farpage
