// Several nodes whose membership is a list, in virtual time: what becomes of a member that is
// silent, slow, away, or starts again, and of the puts that need it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/node/fleet/three_nodes.h"

namespace farpage {
namespace {

// Requests to it are lost with the connection, without a word.
TEST(FleetAway, MemberThatIsSilentWhileItIsGreetedIsGreetedAgain) {
  SimCluster cluster(22, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  const uint64_t lease_ns = three_nodes().node.lease_ms * kMillisecond;
  cluster.cut_links(cluster.node_host(0), cluster.node_host(1));
  // Every connection that they make meanwhile falls silent before a word has passed.
  for (int i = 0; i < 4'000; ++i) {
    client.run_for(10 * kMicrosecond);
    cluster.silence_links(cluster.node_host(0), cluster.node_host(1));
  }
  client.run_for(10 * lease_ns);
  EXPECT_EQ(client.put(number, 1, kMillisecond).code, Code::kOk);
}

// The older one is then taken for the newest, until it ends.
TEST(FleetAway, GreetingThatIsOvertakenByALaterOneHoldsUpNoPutsForLong) {
  SimCluster cluster(23, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  const uint64_t lease_ns = three_nodes().node.lease_ms * kMillisecond;
  for (int round = 0; round < 100; ++round) {
    cluster.cut_links(cluster.node_host(0), cluster.node_host(1));
    cluster.set_control_delay(10 * kMicrosecond, 3 * lease_ns);
    client.run_for(lease_ns * (2 + round % 5));
    cluster.set_control_delay(10 * kMicrosecond, 200 * kMicrosecond);
    client.run_for(20 * lease_ns);
    client.put(number, 2 * round, lease_ns);  // may find it out
    client.run_for(2 * lease_ns);
    ASSERT_EQ(client.put(number, 2 * round + 1, lease_ns).code, Code::kOk) << round;
  }
}

TEST(FleetAway, PutWithoutItsReplicaIsNotAcknowledged) {
  SimCluster cluster(8, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.part(cluster.node_host(0), cluster.node_host(1));
  client.run_for(100 * kMillisecond);
  const uint64_t start = cluster.now_ns();
  EXPECT_EQ(client.put(number, 2, 200 * kMillisecond).code, Code::kUnavailable);
  EXPECT_LE(cluster.now_ns(), start + kMillisecond) << "it has been silent for longer than a lease";
  EXPECT_TRUE(client.holds(0, number, 1)) << "what cannot succeed is not stored";
  const FleetStatus status = client.status(0).fleet;
  EXPECT_EQ(status.puts_without_replica, 1u);
  EXPECT_EQ(status.replicated, 1u);
  EXPECT_EQ(status.replicas, 2u);
  ASSERT_EQ(status.others.size(), 2u);
  for (const MemberStatus& other : status.others) {
    EXPECT_EQ(other.reached, other.node == node_id("n2"));
  }
  EXPECT_EQ(client.status(1).fleet.applied, 1u);
  // Keys that do not need it go on.
  EXPECT_EQ(client.put(client.number_with({0, 2}), 1).code, Code::kOk);
  cluster.heal(cluster.node_host(0), cluster.node_host(1));
  settle(client);
  EXPECT_EQ(client.put(number, 3, kSecond).code, Code::kOk);
  EXPECT_TRUE(client.holds(1, number, 3));
}

// One commit's pages are refused each for itself.
std::string why_of(const RawClient::Answer& answer) {
  const auto* reply = answer.reply ? std::get_if<CommitReply>(&*answer.reply) : nullptr;
  return reply == nullptr ? "no answer" : reply->why;
}

std::string id_of(const std::string& name) {
  return fmt::format("{:016x}", node_id(name));
}

TEST(FleetAway, RefusedPutNamesTheMemberThatIsInItsWay) {
  SimCluster cluster(8, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  cluster.end_node(NodeEnd::kPowerLost, 1);
  // While it is waited for; and once it is known to be away.
  for (const uint64_t patience_ns : {5 * kMillisecond, 200 * kMillisecond}) {
    const auto answer = client.begin_put(0, {{number, 1}}, patience_ns);
    ASSERT_NE(client.results(answer)[0].code, Code::kOk);
    EXPECT_NE(why_of(*answer).find(id_of("n1") + ", which has to have the page too"),
              std::string::npos)
        << why_of(*answer);
    EXPECT_NE(why_of(*answer).find(id_of("n0")), std::string::npos) << "who says so";
    client.run_for(100 * kMillisecond);
  }
}

TEST(FleetAway, AcknowledgedPutSaysNothingOfAMemberThatItDoesNotNeed) {
  SimCluster cluster(8, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 2});
  cluster.end_node(NodeEnd::kPowerLost, 1);
  client.run_for(100 * kMillisecond);
  const auto answer = client.begin_put(0, {{number, 1}});
  ASSERT_EQ(client.results(answer)[0].code, Code::kOk);
  EXPECT_EQ(why_of(*answer), "");
}

TEST(FleetAway, PagesWhoseReplicaIsAwayKeepBackNoOthers) {
  SimCluster cluster(22, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t without = client.number_with({0, 1});
  const uint64_t with = client.number_with({0, 2});
  cluster.end_node(NodeEnd::kPowerLost, 1);
  client.run_for(100 * kMillisecond);
  const uint64_t start = cluster.now_ns();
  const auto put = client.begin_put(0, {{without, 1}, {with, 1}, {without, 2}}, kSecond);
  const auto results = client.results(put);
  EXPECT_LE(put->at_ns, start + 5 * kMillisecond);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].code, Code::kUnavailable);
  EXPECT_EQ(results[1].code, Code::kOk);
  EXPECT_EQ(results[2].code, Code::kUnavailable);
  EXPECT_EQ(client.status(0).fleet.puts_without_replica, 2u);
}

// A link that is lost is soon there again, more often than not.
TEST(FleetAway, ReplicaWhoseLinkIsLostIsWaitedForAsLongAsALease) {
  SimClusterOptions options = three_nodes();
  options.node.lease_ms = 1'000;
  SimCluster cluster(23, options);
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.cut_links(cluster.node_host(0), cluster.node_host(1));
  EXPECT_TRUE(client.wait_for([&] {  // noticed with the next renewal
    return !std::ranges::all_of(client.status(0).fleet.others, &MemberStatus::reached);
  }));
  EXPECT_EQ(client.put(number, 2).code, Code::kOk);
  EXPECT_TRUE(client.holds(1, number, 2));
}

TEST(FleetAway, PausedReplicaIsWaitedFor) {
  SimCluster cluster(9, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  ASSERT_TRUE(client.holds(1, number, 1));
  cluster.node_fabric(1).pause();
  EXPECT_NE(client.put(number, 2, 100 * kMillisecond).code, Code::kOk);
  EXPECT_TRUE(client.holds(1, number, 1)) << "its memory answers all the same";
  cluster.node_fabric(1).resume();
  settle(client);
  EXPECT_EQ(client.put(number, 3).code, Code::kOk);
  EXPECT_TRUE(client.holds(1, number, 3));
}

TEST(FleetAway, PutsThatWaitForAReplicaEndEachAtItsOwnDeadline) {
  SimClusterOptions options = three_nodes();
  options.node.lease_ms = 5'000;
  SimCluster cluster(25, options);
  RawClient client(cluster);
  client.run_for(kSecond);
  cluster.node_fabric(1).pause();
  uint64_t number = 0;
  std::vector<std::pair<uint64_t, std::shared_ptr<RawClient::Answer>>> puts;
  for (const uint64_t patience : {500, 100, 300, 600}) {
    number = client.number_with({0, 1}, number + 1);
    const auto put = client.begin_put(0, {{number, 1}}, patience * kMillisecond);
    puts.emplace_back(cluster.now_ns() + patience * kMillisecond, put);
  }
  for (const auto& [deadline, put] : puts) {
    EXPECT_EQ(client.results(put)[0].code, Code::kTimeout);
    EXPECT_EQ(put->at_ns, deadline);
  }
}

TEST(FleetAway, ReplicaThatStartsAgainIsFilled) {
  SimCluster cluster(10, three_nodes());
  RawClient client(cluster);
  settle(client);
  for (uint64_t number = 0; number < 8; ++number) {
    ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  }
  cluster.end_node(NodeEnd::kPowerLost, 1);
  client.run_for(50 * kMillisecond);
  cluster.start_node(1);
  uint64_t of_node = 0;
  for (uint64_t number = 0; number < 8; ++number) {
    const auto set = client.set_of(client.key(number));
    if (std::ranges::find(set, 1u) == set.end()) continue;
    ++of_node;
    EXPECT_TRUE(client.wait_for([&] { return client.holds(1, number, 1); })) << number;
  }
  EXPECT_GT(of_node, 0u);
  for (const size_t other : {0, 2}) {
    EXPECT_TRUE(client.wait_for([&] {
      return std::ranges::all_of(client.status(other).fleet.others, &MemberStatus::reached);
    }));
  }
  for (uint64_t number = 0; number < 8; ++number) {
    EXPECT_EQ(client.put(number, 2, kSecond).code, Code::kOk) << number;
  }
}

// At every instant, and not only on the whole.
TEST(FleetAway, FillingStaysBelowItsLimit) {
  SimClusterOptions options = three_nodes();
  options.node.fill_bytes_per_s = 64 * kKiB;
  SimCluster cluster(24, options);
  RawClient client(cluster);
  settle(client);
  uint64_t pages = 0;
  for (uint64_t number = 0; number < 15; ++number) {
    ASSERT_EQ(client.put(number, 1).code, Code::kOk);
    const auto set = client.set_of(client.key(number));
    pages += static_cast<uint64_t>(std::ranges::count(set, 1u));
  }
  ASSERT_GE(pages, 5u);
  cluster.end_node(NodeEnd::kPowerLost, 1);
  client.run_for(50 * kMillisecond);
  cluster.start_node(1);
  const uint64_t started = cluster.now_ns();
  const uint64_t page_bytes = client.bytes_of(0, 1).size();
  uint64_t first_ns = 0;
  EXPECT_TRUE(client.wait_for([&] {
    const FleetStatus status = client.status(1).fleet;
    const uint64_t now = cluster.now_ns();
    if (status.filled > 0 && first_ns == 0) first_ns = now;
    const uint64_t since = first_ns == 0 ? 0 : now - first_ns + 2 * kMillisecond;
    EXPECT_LE(status.filled, 1 + since * options.node.fill_bytes_per_s / kSecond / page_bytes);
    return status.filled == pages;
  }));
  EXPECT_GE(cluster.now_ns() - started,
            (pages - 1) * page_bytes * kSecond / options.node.fill_bytes_per_s);
}

// A client may still read what the run before held: mapped memory of a process that was killed.
TEST(FleetAway, RestartedReplicaAppliesNothingForV) {
  SimClusterOptions options = three_nodes();
  options.node.lease_ms = 200;
  SimCluster cluster(11, options);
  RawClient client(cluster);
  client.run_for(500 * kMillisecond);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.end_node(NodeEnd::kKilled, 1);
  const uint64_t started = cluster.now_ns();
  cluster.start_node(1);
  client.run_for(100 * kMillisecond);  // the others have reached it
  const auto answer = client.begin_put(0, {{number, 2}}, 5 * kSecond);
  const auto results = client.results(answer);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].code, Code::kOk);
  EXPECT_GE(answer->at_ns, started + 200 * kMillisecond / 64 * 65);
}

TEST(FleetAway, PutsOfAPrimaryThatStartsAgainAreNewer) {
  SimCluster cluster(12, three_nodes());
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  const Version before = client.put(number, 1).version;
  cluster.end_node(NodeEnd::kPowerLost, 0);
  client.run_for(50 * kMillisecond);
  cluster.start_node(0);
  settle(client);
  const CommitResult after = client.put(number, 2);
  ASSERT_EQ(after.code, Code::kOk);
  EXPECT_GT(after.version, before);
  EXPECT_TRUE(client.holds(0, number, 2));
  EXPECT_TRUE(client.holds(1, number, 2));
}

// As every read of a machine that stood still for that long is: the put has time for another.
TEST(FleetAway, ReadThatTookLongerThanLIsMadeAgain) {
  SimClusterOptions options = three_nodes();
  SimCluster cluster(21, options);
  RawClient client(cluster);
  settle(client);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  sim::SimOptions slow = options.network;
  slow.delay_min_ns = slow.delay_max_ns = 2 * options.node.reuse_ms * kMillisecond;
  cluster.node_fabric(1).set_options(slow);
  const auto put = client.begin_put(0, {{number, 2}}, 500 * kMillisecond);
  client.run_for(50 * kMillisecond);
  EXPECT_FALSE(put->reply.has_value());
  cluster.node_fabric(1).set_options(options.network);
  EXPECT_EQ(client.results(put)[0].code, Code::kOk);
  EXPECT_TRUE(client.holds(1, number, 2));
}

}  // namespace
}  // namespace farpage
