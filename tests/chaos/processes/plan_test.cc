#include "chaos/processes/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace farpage::processes {
namespace {

PlanOptions all_kinds(uint64_t seed, uint64_t disturbances = 200) {
  PlanOptions options = {.seed = seed, .disturbances = disturbances, .nodes = 3, .kinds = {}};
  options.kinds.fill(true);
  return options;
}

std::vector<std::string> lines(const std::vector<Round>& rounds) {
  std::vector<std::string> lines;
  for (const Round& round : rounds) {
    for (const Disturbance& each : round) {
      lines.push_back(std::to_string(each.at_ms) + " " + describe(each));
    }
  }
  return lines;
}

TEST(ProcessesPlan, IsTheSameForTheSameSeed) {
  EXPECT_EQ(lines(draw_plan(all_kinds(7))), lines(draw_plan(all_kinds(7))));
  EXPECT_NE(lines(draw_plan(all_kinds(7))), lines(draw_plan(all_kinds(8))));
}

TEST(ProcessesPlan, HasAsManyAsWereAskedForAndEveryKind) {
  EXPECT_EQ(lines(draw_plan(all_kinds(1, 1))).size(), 1u);
  EXPECT_EQ(lines(draw_plan(all_kinds(1, 201))).size(), 201u);
  std::set<Kind> kinds;
  for (const Round& round : draw_plan(all_kinds(1))) {
    for (const Disturbance& each : round) kinds.insert(each.kind);
  }
  EXPECT_EQ(kinds.size(), kKinds);
}

TEST(ProcessesPlan, HasNoOtherKindsThanThose) {
  PlanOptions options = all_kinds(3);
  options.kinds.fill(false);
  options.kinds[static_cast<size_t>(Kind::kStopped)] = true;
  for (const Round& round : draw_plan(options)) {
    for (const Disturbance& each : round) EXPECT_EQ(each.kind, Kind::kStopped);
  }
}

TEST(ProcessesPlan, DisturbsOneNodeAloneInEveryOtherRound) {
  const std::vector<Round> rounds = draw_plan(all_kinds(5, 400));
  std::array<size_t, 2> most{};  // nodes, in rounds of either kind
  for (size_t round = 0; round < rounds.size(); ++round) {
    std::set<size_t> nodes;
    for (const Disturbance& each : rounds[round]) nodes.insert(each.node);
    most[round % 2] = std::max(most[round % 2], nodes.size());
  }
  EXPECT_EQ(most[0], 1u);
  EXPECT_EQ(most[1], 3u);
}

TEST(ProcessesPlan, NothingOverlapsOfOneProcessOrCable) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const Round& round : draw_plan(all_kinds(seed))) {
      std::map<std::pair<size_t, bool>, uint64_t> busy_until_ms;
      uint64_t last_ms = 0;
      for (const Disturbance& each : round) {
        EXPECT_GE(each.at_ms, last_ms) << seed;
        last_ms = each.at_ms;
        const size_t host = is_of_etcd(each.kind) ? 3 : each.node;
        uint64_t& until_ms = busy_until_ms[{host, is_of_network(each.kind)}];
        EXPECT_GE(each.at_ms, until_ms) << seed << ": " << describe(each);
        until_ms = each.at_ms + each.for_ms;
      }
    }
  }
}

TEST(ProcessesPlan, ManyNodesAreDisturbedForLonger) {
  for (const auto& [nodes, most_ms] :
       {std::pair(8, 4'000), std::pair(9, 8'000), std::pair(32, 16'000)}) {
    uint64_t longest_ms = 0;
    for (const Round& round : draw_plan({.seed = 1,
                              .disturbances = 1000,
                              .nodes = static_cast<uint64_t>(nodes),
                              .kinds = {true}})) {
      for (const Disturbance& each : round) longest_ms = std::max(longest_ms, each.for_ms);
    }
    EXPECT_LE(longest_ms, most_ms);
    EXPECT_GT(longest_ms, most_ms * 3 / 4);
  }
}

}  // namespace
}  // namespace farpage::processes
