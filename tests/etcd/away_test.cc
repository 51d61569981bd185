#include "etcd/away.h"

#include <gtest/gtest.h>

namespace farpage::etcd {
namespace {

const std::string kPrefix = "/farpage/x/";
constexpr uint64_t kNumber = 7;

Epoch of(const std::vector<NodeId>& nodes) {
  Epoch epoch = {kNumber, 1, 0, 4096, {}};
  for (const NodeId node : nodes) epoch.members.push_back({node, node + 100});
  return epoch;
}

using Nodes = std::vector<NodeId>;
using Said = std::vector<AwayRecord>;

TEST(Away, MemberThatAllOthersMissIsReachedByNobody) {
  const Said said = {{1, kNumber, {3}}, {2, kNumber, {3}}};
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), {1, 2, 3}, said), Nodes{3});
  EXPECT_EQ(reached_by_nobody(of({3, 1, 2}), {1, 2, 3}, said), Nodes{3}) << "whoever joined first";
}

TEST(Away, MemberThatAnotherOneReachesStays) {
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), {1, 2, 3}, {{1, kNumber, {3}}}), Nodes{});
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), {1, 2, 3}, {{1, kNumber, {3}}, {3, kNumber, {1}}}),
            Nodes{});
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), {1, 2, 3}, {}), Nodes{});
}

TEST(Away, WhoHasNoProcessSaysNothingAndIsNoOthersMatter) {
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), {1, 3}, {{1, kNumber, {2, 3}}}), Nodes{3});
  EXPECT_EQ(reached_by_nobody(of({1, 2}), {1}, {{1, kNumber, {2}}}), Nodes{}) << "its lease ends";
}

TEST(Away, NobodyIsLeftOutByWhatWasSaidInAnotherEpoch) {
  for (const uint64_t epoch : {kNumber - 1, kNumber + 1, uint64_t{0}}) {
    EXPECT_EQ(reached_by_nobody(of({1, 2}), {1, 2}, {{1, epoch, {2}}}), Nodes{}) << epoch;
  }
}

TEST(Away, OfThoseThatDoNotReachEachOtherTheOldestStays) {
  const Said said = {{1, kNumber, {2, 3}}, {2, kNumber, {1, 3}}, {3, kNumber, {1, 2}}};
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), {1, 2, 3}, said), (Nodes{3, 2}));
  EXPECT_EQ(reached_by_nobody(of({3, 2, 1}), {1, 2, 3}, said), (Nodes{1, 2}));
}

TEST(Away, OneAloneStays) {
  EXPECT_EQ(reached_by_nobody(of({1}), {1}, {{1, kNumber, {1}}}), Nodes{});
}

TransactionReply reply(const std::string& key, const std::string& value) {
  TransactionReply made;
  made.held = true;
  made.found = {{{key, value, 3, 9}}};
  return made;
}

TEST(Away, RecordComesBackAsItWasWritten) {
  const AwayRecord record = {UINT64_MAX - 1, UINT64_MAX / 2, {1, UINT64_MAX}};
  const auto read = decode_away(kPrefix, reply(away_key(kPrefix, record.by), encode(record)));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, Said{record});
}

TEST(Away, SomethingElseIsRefusedWithItsKey) {
  const std::string key = away_key(kPrefix, 1);
  for (const std::string value : {"", "x", R"({"epoch":1,"nodes":[1]})", R"({"nodes":1})",
                                  R"({"epoch":1,"nodes":[{"node":"q"}]})"}) {
    const auto read = decode_away(kPrefix, reply(key, value));
    ASSERT_FALSE(read.has_value()) << value;
    EXPECT_NE(read.error().message.find(key), std::string::npos) << read.error().message;
  }
  EXPECT_FALSE(decode_away(kPrefix, reply(kPrefix + "away/n1", R"({"epoch":1})")));
  EXPECT_FALSE(decode_away(kPrefix, {}));
}

}  // namespace
}  // namespace farpage::etcd
