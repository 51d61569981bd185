// Several nodes whose epochs a register says, in virtual time: entering an epoch, being left out
// and coming back, and what moves from whom to whom.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pagetable/guards.h"
#include "tests/node/raw_client.h"

namespace farpage {
namespace {

constexpr uint64_t kView = 20 * kMillisecond;  // small_sim_node()

SimClusterOptions registered_nodes(uint64_t nodes = 3) {
  SimClusterOptions options;
  options.nodes = nodes;
  options.replicas = 2;
  options.uses_register = true;
  return options;
}

bool all_are_in(SimCluster& cluster) {
  const RegisteredEpoch& current = cluster.epochs()->current();
  return current.all_confirmed() && current.epoch.members.size() == cluster.nodes() &&
         std::ranges::all_of(current.epoch.members,
                             [](const Member& member) { return member.incarnation != 0; });
}

// All members have joined and confirmed, and the views of the epochs before have ended.
void settle(SimCluster& cluster, RawClient& client) {
  ASSERT_TRUE(client.wait_for([&] { return all_are_in(cluster); }));
  client.run_for(100 * kMillisecond);
}

bool is_member(SimCluster& cluster, size_t node) {
  return cluster.epochs()->current().epoch.find(node_id("n" + std::to_string(node))) != nullptr;
}

TEST(FleetRegister, NodesJoinByThemselvesAndTakePuts) {
  SimCluster cluster(1, registered_nodes());
  RawClient client(cluster);
  settle(cluster, client);
  for (uint64_t number = 0; number < 10; ++number) {
    const CommitResult result = client.put(number, 1);
    ASSERT_EQ(result.code, Code::kOk);
    EXPECT_EQ(version_epoch(result.version), client.epoch_now().number);
    for (const size_t node : client.set_of(client.key(number))) {
      EXPECT_TRUE(client.holds(node, number, 1));
    }
  }
}

TEST(FleetRegister, NodeThatIsLeftOutNoLongerHoldsUpPuts) {
  SimCluster cluster(2, registered_nodes());
  RawClient client(cluster);
  settle(cluster, client);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.end_node(NodeEnd::kPowerLost, 1);
  EXPECT_NE(client.put(number, 2, 100 * kMillisecond).code, Code::kOk);
  ASSERT_TRUE(client.wait_for([&] { return !is_member(cluster, 1); }));
  ASSERT_TRUE(client.wait_for([&] { return cluster.epochs()->current().all_confirmed(); }));
  EXPECT_EQ(client.set_of(client.key(number)), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(client.put(number, 3).code, Code::kOk);
  EXPECT_TRUE(client.holds(2, number, 3));
}

TEST(FleetRegister, PutsOpenVAfterTheEpochWasLearned) {
  SimClusterOptions options = registered_nodes();
  options.node.lease_ms = 400;
  SimCluster cluster(3, options);
  RawClient client(cluster);
  ASSERT_TRUE(client.wait_for([&] { return all_are_in(cluster); }));
  client.run_for(kSecond);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.end_node(NodeEnd::kPowerLost, 2);
  ASSERT_TRUE(client.wait_for([&] { return !is_member(cluster, 2); }));
  const uint64_t began = cluster.now_ns();  // to a millisecond
  ASSERT_TRUE(client.wait_for([&] { return cluster.epochs()->current().all_confirmed(); }));
  const auto answer = client.begin_put(0, {{number, 2}}, 5 * kSecond);
  ASSERT_EQ(client.results(answer)[0].code, Code::kOk);
  EXPECT_GE(answer->at_ns, began + 400 * kMillisecond / 64 * 65 - 2 * kMillisecond);
}

TEST(FleetRegister, PutsOpenOnceAllMembersHaveConfirmed) {
  SimClusterOptions options = registered_nodes();
  options.epochs.detect_ns = 2 * kSecond;
  SimCluster cluster(4, options);
  RawClient client(cluster);
  settle(cluster, client);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.end_node(NodeEnd::kPowerLost, 1);
  cluster.node_fabric(2).pause();
  client.run_for(100 * kMillisecond);
  cluster.start_node(1);  // its return is a new epoch, which the paused node does not confirm
  client.run_for(600 * kMillisecond);
  ASSERT_TRUE(is_member(cluster, 2));
  ASSERT_EQ(cluster.epochs()->current().confirmed.size(), 2u);
  const auto answer = client.begin_put(0, {{number, 2}}, 100 * kMillisecond);
  EXPECT_EQ(client.results(answer)[0].code, Code::kUnavailable);
  const std::string why = std::get<CommitReply>(*answer->reply).why;
  EXPECT_NE(why.find(fmt::format("member {:016x} has not confirmed", node_id("n2"))),
            std::string::npos)
      << why;
  cluster.node_fabric(2).resume();
  ASSERT_TRUE(client.wait_for([&] { return all_are_in(cluster); }));
  EXPECT_EQ(client.put(number, 3).code, Code::kOk);
}

TEST(FleetRegister, NodeThatComesBackIsEmptyUnderAnotherIncarnationAndIsFilled) {
  SimCluster cluster(5, registered_nodes());
  RawClient client(cluster);
  settle(cluster, client);
  std::vector<uint64_t> numbers;
  for (uint64_t number = 0; numbers.size() < 6; ++number) {
    numbers.push_back(number);
    ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  }
  const uint64_t incarnation = client.status(1).incarnation;
  cluster.node_fabric(1).pause();
  ASSERT_TRUE(client.wait_for([&] { return !is_member(cluster, 1); }));
  client.run_for(100 * kMillisecond);
  for (const uint64_t number : numbers) ASSERT_EQ(client.put(number, 2).code, Code::kOk);
  cluster.node_fabric(1).resume();
  ASSERT_TRUE(client.wait_for([&] { return all_are_in(cluster); }));
  client.forget(1);
  EXPECT_NE(client.status(1).incarnation, incarnation);
  for (const uint64_t number : numbers) {
    const auto set = client.set_of(client.key(number));
    const bool is_in_set = std::ranges::find(set, 1u) != set.end();
    EXPECT_EQ(client.wait_for([&] { return client.holds(1, number, 2); }, 200 * kMillisecond),
              is_in_set);
    EXPECT_FALSE(client.holds(1, number, 1));
  }
}

// Its memory answers nobody, though its process has not said a word.
TEST(FleetRegister, NodeThatWasLeftOutWithdrawsItsRegistrations) {
  SimCluster cluster(6, registered_nodes());
  RawClient client(cluster);
  settle(cluster, client);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  ASSERT_TRUE(client.holds(1, number, 1));
  cluster.node_fabric(1).pause();
  ASSERT_TRUE(client.wait_for([&] { return !is_member(cluster, 1); }));
  EXPECT_TRUE(client.holds(1, number, 1)) << "it does not know yet";
  cluster.node_fabric(1).resume();
  ASSERT_TRUE(client.wait_for([&] { return is_member(cluster, 1); }));
  EXPECT_FALSE(client.read(1, number));
}

// Its client asks again, and need not wait until its patience has ended.
TEST(FleetRegister, HelloThatANodeCannotAnswerBeforeItIsLeftOutIsRefused) {
  SimCluster cluster(8, registered_nodes());
  RawClient client(cluster);
  settle(cluster, client);
  constexpr uint64_t kSlowNs = 600 * kSecond;
  cluster.node_fabric(1).set_options({.offload_min_ns = kSlowNs, .offload_max_ns = kSlowNs});
  const ClientId id = cluster.node_service(1).connected().value();
  HelloRequest hello;
  hello.staging_bytes = 4 * kKiB;
  std::optional<Reply> reply;
  cluster.node_service(1).handle(id, hello, [&](Reply answer) { reply = std::move(answer); });
  cluster.node_fabric(1).pause();
  ASSERT_TRUE(client.wait_for([&] { return !is_member(cluster, 1); }));
  EXPECT_FALSE(reply.has_value());
  cluster.node_fabric(1).resume();
  ASSERT_TRUE(client.wait_for([&] { return reply.has_value(); }));
  ASSERT_TRUE(std::holds_alternative<Refusal>(*reply));
  EXPECT_EQ(std::get<Refusal>(*reply).code, Code::kUnavailable);
}

TEST(FleetRegister, KeyThatMovesIsKilledWhereItWasAndFilledWhereItGoes) {
  SimClusterOptions options = registered_nodes(3);
  SimCluster cluster(7, options);
  RawClient client(cluster);
  settle(cluster, client);
  // Of node 2's keys some go to node 0 or 1 when it leaves, and come back with it.
  const uint64_t number = client.number_with({2, 0});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  ASSERT_FALSE(client.read(1, number));
  cluster.end_node(NodeEnd::kPowerLost, 2);
  ASSERT_TRUE(client.wait_for([&] { return !is_member(cluster, 2); }));
  ASSERT_TRUE(client.wait_for([&] { return client.holds(1, number, 1); })) << "filled by node 0";
  cluster.start_node(2);
  ASSERT_TRUE(client.wait_for([&] { return all_are_in(cluster); }));
  ASSERT_EQ(client.set_of(client.key(number)), (std::vector<size_t>{2, 0}));
  EXPECT_FALSE(client.read(1, number)) << "it is no replica any more";
  EXPECT_TRUE(client.holds(0, number, 1));
  EXPECT_TRUE(client.wait_for([&] { return client.holds(2, number, 1); }));
}

// The only page there is lies dead at a node that left the set with this very epoch.
TEST(FleetRegister, DeadBytesFillInTheEpochThatKilledThem) {
  SimClusterOptions options = registered_nodes(3);
  options.replicas = 1;
  SimCluster cluster(8, options);
  RawClient client(cluster);
  settle(cluster, client);
  cluster.end_node(NodeEnd::kPowerLost, 2);
  ASSERT_TRUE(client.wait_for([&] { return !is_member(cluster, 2); }));
  client.run_for(200 * kMillisecond);
  const uint64_t number = client.number_that_moves(0, 2);
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.start_node(2);
  ASSERT_TRUE(client.wait_for([&] { return all_are_in(cluster); }));
  EXPECT_TRUE(client.wait_for([&] { return client.holds(2, number, 1); }));
  EXPECT_FALSE(client.read(0, number));
}

// Node 0 had the key an epoch ago, and node 2 a newer page of it: what node 0 still has in its
// memory is of no use to node 2, which has lost everything.
TEST(FleetRegister, DeadBytesOfTheEpochBeforeFillNobody) {
  SimClusterOptions options = registered_nodes(3);
  options.replicas = 1;
  SimCluster cluster(8, options);
  RawClient client(cluster);
  settle(cluster, client);
  cluster.end_node(NodeEnd::kPowerLost, 2);
  ASSERT_TRUE(client.wait_for([&] { return !is_member(cluster, 2); }));
  client.run_for(200 * kMillisecond);
  const uint64_t number = client.number_that_moves(0, 2);
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.start_node(2);
  ASSERT_TRUE(client.wait_for([&] { return all_are_in(cluster); }));
  client.run_for(600 * kMillisecond);
  ASSERT_EQ(client.put(number, 2).code, Code::kOk);
  const uint64_t epoch = client.epoch_now().number;
  cluster.end_node(NodeEnd::kPowerLost, 2);
  cluster.start_node(2);
  ASSERT_TRUE(client.wait_for([&] { return client.epoch_now().number > epoch; }));
  ASSERT_TRUE(client.wait_for([&] { return all_are_in(cluster); }));
  for (int i = 0; i < 100; ++i) {
    client.run_for(10 * kMillisecond);
    ASSERT_FALSE(client.read(2, number));
  }
}

TEST(FleetRegister, TwoEpochsQuicklyAfterEachOther) {
  SimClusterOptions options = registered_nodes(4);
  SimCluster cluster(9, options);
  RawClient client(cluster);
  settle(cluster, client);
  std::vector<uint64_t> numbers;
  for (uint64_t number = 0; number < 8; ++number) {
    ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  }
  cluster.end_node(NodeEnd::kPowerLost, 2);
  client.run_for(30 * kMillisecond);
  cluster.end_node(NodeEnd::kPowerLost, 3);
  cluster.start_node(2);
  cluster.start_node(3);
  ASSERT_TRUE(client.wait_for([&] { return all_are_in(cluster); }));
  client.run_for(200 * kMillisecond);
  for (uint64_t number = 0; number < 8; ++number) {
    EXPECT_EQ(client.put(number, 2).code, Code::kOk) << number;
    for (const size_t node : client.set_of(client.key(number))) {
      EXPECT_TRUE(client.holds(node, number, 2)) << number;
    }
  }
}

// On the losing side of a partition: its view has ended, whatever it believes.
TEST(FleetRegister, PrimaryThatIsCutOffAcknowledgesNothing) {
  SimClusterOptions options = registered_nodes(3);
  options.epochs.detect_ns = 2 * kSecond;
  SimCluster cluster(10, options);
  RawClient client(cluster);
  settle(cluster, client);
  const uint64_t number = client.number_with({0, 1});
  ASSERT_EQ(client.put(number, 1).code, Code::kOk);
  cluster.part(cluster.node_host(0), cluster.register_host());
  client.run_for(2 * kView);
  EXPECT_EQ(client.put(number, 2, 100 * kMillisecond).code, Code::kUnavailable);
#ifdef FARPAGE_GUARD_SWITCHES
  const GuardOff off(Guard::kPrimaryLease);
  EXPECT_EQ(client.put(number, 3, 100 * kMillisecond).code, Code::kOk);
#endif
}

// The answer to a put of two pages waits for both: when it is given, the view has to hold for both.
TEST(FleetRegister, PageThatWaitsForAnotherIsNotAcknowledgedUnderAnEndedView) {
  SimClusterOptions options = registered_nodes(3);
  options.epochs.detect_ns = 2 * kSecond;
  SimCluster cluster(12, options);
  RawClient client(cluster);
  settle(cluster, client);
  const uint64_t quick = client.number_with({0, 1});
  const uint64_t slow = client.number_with({0, 2});
  cluster.node_fabric(2).set_options(
      {.delay_min_ns = 10 * kView, .delay_max_ns = 10 * kView});  // it hears, and reads in vain
  cluster.part(cluster.node_host(0), cluster.register_host());
  const auto results =
      client.results(client.begin_put(0, {{quick, 1}, {slow, 1}}, 2 * kView, client.tag()));
  ASSERT_TRUE(client.holds(1, quick, 1)) << "it was replicated while the view held";
  EXPECT_EQ(results[0].code, Code::kUnavailable);
  EXPECT_NE(results[1].code, Code::kOk);
}

// Protocol rule 12: its own view, and how long ago it sent the read that this comes from.
TEST(FleetRegister, TellsClientsOfItsEpochAndOfTheAgeOfItsView) {
  SimClusterOptions options = registered_nodes(3);
  options.epochs.detect_ns = 2 * kSecond;
  SimCluster cluster(13, options);
  RawClient client(cluster);
  settle(cluster, client);
  const auto read_ns = [&cluster] { return cluster.epochs()->last_read_ns(cluster.node_host(0)); };
  for (int i = 0; i < 20; ++i) {
    const uint64_t before_ns = read_ns();
    const auto asked_ns = cluster.now_ns();
    const auto renewed = client.ask<RenewReply>(0, RenewRequest{});
    const uint64_t newest_ns = std::max(before_ns, read_ns());
    EXPECT_EQ(renewed.epoch, client.tag());
    // It answered between the asking and now, and has read at most once meanwhile.
    EXPECT_GE(renewed.view_age_ns + newest_ns, asked_ns);
    EXPECT_LE(renewed.view_age_ns + before_ns, cluster.now_ns());
    const auto told = client.ask<EpochReply>(0, EpochRequest{});
    const Epoch& now = cluster.epochs()->current().epoch;
    EXPECT_EQ(told.view, client.tag());
    EXPECT_LE(told.view_age_ns + newest_ns, cluster.now_ns());
    EXPECT_EQ(told.replicas, now.replicas);
    EXPECT_EQ(told.seed, now.seed);
    EXPECT_EQ(told.page_bytes, now.page_bytes);
    ASSERT_EQ(told.members.size(), now.members.size());
    for (size_t place = 0; place < now.members.size(); ++place) {
      EXPECT_EQ(told.members[place].node, now.members[place].node);
      EXPECT_EQ(told.members[place].incarnation, now.members[place].incarnation);
      EXPECT_FALSE(told.members[place].leaving);
      EXPECT_EQ(told.members[place].slot, now.members[place].slot);
    }
    client.run_for(kView / 7);
  }
  cluster.part(cluster.node_host(0), cluster.register_host());
  client.run_for(2 * kView);
  EXPECT_EQ(client.ask<RenewReply>(0, RenewRequest{}).epoch.number, 0u);
  const auto untold = client.ask<EpochReply>(0, EpochRequest{});
  EXPECT_EQ(untold.view.number, 0u);
  EXPECT_TRUE(untold.members.empty());
}

TEST(FleetRegister, QuestionForTheNextEpochWaitsUntilTheNodeIsInIt) {
  SimCluster cluster(15, registered_nodes());
  RawClient client(cluster);
  settle(cluster, client);
  const auto waiting = client.send(0, EpochRequest{client.tag()});
  client.run_for(20 * kView);
  EXPECT_FALSE(waiting->reply);
  const auto behind = client.send(0, EpochRequest{{1, 1}});
  ASSERT_TRUE(behind->reply) << "it is in another one already";
  EXPECT_EQ(std::get<EpochReply>(*behind->reply).view, client.tag());
  cluster.end_node(NodeEnd::kPowerLost, 2);
  ASSERT_TRUE(client.wait_for([&] { return waiting->reply.has_value(); }));
  EXPECT_EQ(std::get<EpochReply>(*waiting->reply).view, client.tag());
  EXPECT_FALSE(is_member(cluster, 2));
}

TEST(FleetRegister, NodeThatIsLeftOutRefusesQuestionsThatWait) {
  SimCluster cluster(16, registered_nodes());
  RawClient client(cluster);
  settle(cluster, client);
  const auto waiting = client.send(0, EpochRequest{client.tag()});
  cluster.part(cluster.node_host(0), cluster.register_host());
  ASSERT_TRUE(client.wait_for([&] { return !is_member(cluster, 0); }));
  cluster.heal(cluster.node_host(0), cluster.register_host());
  ASSERT_TRUE(client.wait_for([&] { return waiting->reply.has_value(); }));
  const auto* refusal = std::get_if<Refusal>(&*waiting->reply);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->code, Code::kUnavailable);
}

TEST(FleetRegister, PutOfAnotherEpochIsRefusedWithTheNodesOwn) {
  SimCluster cluster(11, registered_nodes());
  RawClient client(cluster);
  settle(cluster, client);
  const EpochTag before = client.tag();
  cluster.end_node(NodeEnd::kPowerLost, 2);
  ASSERT_TRUE(client.wait_for(
      [&] { return !is_member(cluster, 2) && cluster.epochs()->current().all_confirmed(); }));
  client.run_for(100 * kMillisecond);
  const uint64_t number = client.number_with({0, 1});
  EXPECT_EQ(client.results(client.begin_put(0, {{number, 1}}, kSecond, before))[0].code,
            Code::kOtherEpoch);
  EXPECT_EQ(client.last_refusal.epoch, client.tag());
}

}  // namespace
}  // namespace farpage
