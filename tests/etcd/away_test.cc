#include "etcd/away.h"

#include <gtest/gtest.h>

namespace farpage::etcd {
namespace {

const std::string kPrefix = "/farpage/x/";
constexpr uint64_t kNumber = 7;

Epoch of(const std::vector<NodeId>& nodes) {
  Epoch epoch = {kNumber, 1, 0, 4096, {}};
  for (const NodeId node : nodes) epoch.members.push_back({node, node + 100});
  epoch.give_slots();
  return epoch;
}

std::vector<Process> living(const std::vector<NodeId>& nodes) {
  std::vector<Process> processes;
  for (const NodeId node : nodes) processes.push_back({node});
  return processes;
}

using Nodes = std::vector<NodeId>;
using Said = std::vector<AwayRecord>;

TEST(Away, MemberThatAllOthersMissIsReachedByNobody) {
  const Said said = {{1, kNumber, {3}}, {2, kNumber, {3}}};
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), living({1, 2, 3}), said), Nodes{3});
  EXPECT_EQ(reached_by_nobody(of({3, 1, 2}), living({1, 2, 3}), said), Nodes{3})
      << "whoever joined first";
}

TEST(Away, MemberThatAnotherOneReachesStays) {
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), living({1, 2, 3}), {{1, kNumber, {3}}}), Nodes{});
  EXPECT_EQ(
      reached_by_nobody(of({1, 2, 3}), living({1, 2, 3}), {{1, kNumber, {3}}, {3, kNumber, {1}}}),
      Nodes{});
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), living({1, 2, 3}), {}), Nodes{});
}

TEST(Away, WhoHasNoProcessSaysNothingAndIsNoOthersMatter) {
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), living({1, 3}), {{1, kNumber, {2, 3}}}), Nodes{3});
  EXPECT_EQ(reached_by_nobody(of({1, 2}), living({1}), {{1, kNumber, {2}}}), Nodes{})
      << "its lease ends";
}

TEST(Away, NobodyIsLeftOutByWhatWasSaidInAnotherEpoch) {
  for (const uint64_t epoch : {kNumber - 1, kNumber + 1, uint64_t{0}}) {
    EXPECT_EQ(reached_by_nobody(of({1, 2}), living({1, 2}), {{1, epoch, {2}}}), Nodes{}) << epoch;
  }
}

TEST(Away, OfTwoThatDoNotReachEachOtherTheOlderStays) {
  const Said said = {{1, kNumber, {2}}, {2, kNumber, {1}}};
  EXPECT_EQ(reached_by_nobody(of({1, 2}), living({1, 2}), said), Nodes{2});
  EXPECT_EQ(reached_by_nobody(of({2, 1}), living({1, 2}), said), Nodes{1});
}

TEST(Away, AllStayWhereNoTwoReachEachOther) {
  const Said said = {{1, kNumber, {2, 3}}, {2, kNumber, {1, 3}}, {3, kNumber, {1, 2}}};
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), living({1, 2, 3}), said), Nodes{});
}

TEST(Away, SeveralThatNobodyReachesGoWhereTwoReachEachOther) {
  const Said said = {
      {1, kNumber, {3, 4}}, {2, kNumber, {3, 4}}, {3, kNumber, {1, 2, 4}}, {4, kNumber, {1, 2, 3}}};
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3, 4}), living({1, 2, 3, 4}), said), (Nodes{4, 3}));
  EXPECT_EQ(reached_by_nobody(of({4, 3, 2, 1}), living({1, 2, 3, 4}), said), (Nodes{3, 4}));
}

TEST(Away, HalvesThatReachThemselvesStay) {
  const Said said = {
      {1, kNumber, {3, 4}}, {2, kNumber, {3, 4}}, {3, kNumber, {1, 2}}, {4, kNumber, {1, 2}}};
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3, 4}), living({1, 2, 3, 4}), said), Nodes{});
}

TEST(Away, ProcessThatRegisteredAfterTheEpochHasTimeToJoin) {
  const Said said = {{1, kNumber, {3}}, {2, kNumber, {3}}};
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), {{1}, {2}, {3, true}}, said), Nodes{});
  EXPECT_EQ(reached_by_nobody(of({1, 2, 3}), {{1}, {2, true}, {3}}, said), Nodes{3});
}

TEST(Away, OneAloneStays) {
  EXPECT_EQ(reached_by_nobody(of({1}), living({1}), {{1, kNumber, {1}}}), Nodes{});
}

TransactionReply reply(const std::string& key, const std::string& value) {
  TransactionReply made;
  made.held = true;
  made.found = {{{key, value, 3, 9}}};
  return made;
}

TEST(Away, RecordComesBackAsItWasWritten) {
  const AwayRecord record = {UINT64_MAX - 1, UINT64_MAX / 2, {1, UINT64_MAX}};
  EXPECT_EQ(decode_away(kPrefix, reply(away_key(kPrefix, record.by), encode(record))),
            Said{record});
}

TEST(Away, RecordThatIsNoneSaysNothing) {
  for (const std::string value : {"", "x", R"({"epoch":1,"nodes":[1]})", R"({"nodes":1})",
                                  R"({"epoch":1,"nodes":[{"node":"q"}]})"}) {
    EXPECT_EQ(decode_away(kPrefix, reply(away_key(kPrefix, 1), value)), Said{}) << value;
  }
  EXPECT_EQ(decode_away(kPrefix, reply(kPrefix + "away/n1", R"({"epoch":1,"nodes":[]})")), Said{});
  EXPECT_EQ(decode_away(kPrefix, {}), Said{});
}

}  // namespace
}  // namespace farpage::etcd
