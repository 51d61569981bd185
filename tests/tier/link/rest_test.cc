#include <gtest/gtest.h>

#include <functional>

#include "tests/tier/fleet.h"

namespace farpage {
namespace {

constexpr uint64_t kRest = 10 * kSecond;

struct Nodes {
  const char* name;
  SimClusterOptions options;
};

SimClusterOptions one_node() {
  SimClusterOptions options = three_nodes();
  options.nodes = options.replicas = 1;
  return options;
}

// A client that has used all of its nodes, and then none for a while.
class Rest : public testing::TestWithParam<Nodes> {
 protected:
  Rest() : cluster_(1, GetParam().options) {
    ClientOptions options;
    options.staging_bytes = 64 * kKiB;
    options.rest_ms = kRest / kMillisecond;
    client_ = cluster_.connect(0, options).value();
    run_for(10 * kView);  // until they take puts
    engine_.emplace(*client_, kPageBytes, 64);
    use_all(*engine_);
    for (uint64_t number = 0; number < 8; ++number) {
      EXPECT_EQ(engine_->put(test_key(number), number).code, Code::kOk);
    }
  }

  uint64_t now() const { return cluster_.now_ns(); }
  void run_for(uint64_t duration_ns) { cluster_.world().run_until(now() + duration_ns); }
  void rest() {
    run_for(kRest + 2 * kView);
    ASSERT_EQ(clients(), 0u);
  }
  uint64_t clients() {
    uint64_t sum = 0;
    for (size_t node = 0; node < cluster_.nodes(); ++node) {
      if (cluster_.node_runs(node)) sum += cluster_.node_service(node).status().clients;
    }
    return sum - members();
  }
  // Members are among those whom a node counts.
  uint64_t members() const {
    uint64_t running = 0;
    for (size_t node = 0; node < cluster_.nodes(); ++node)
      running += cluster_.node_runs(node) ? 1 : 0;
    return running * (running - 1);
  }

  SimCluster cluster_;
  std::unique_ptr<Client> client_;
  std::optional<Engine> engine_;
};

TEST_P(Rest, NodesForgetAClientThatAsksForNothing) {
  EXPECT_EQ(clients(), cluster_.nodes());
  run_for(kRest - kSecond);
  EXPECT_EQ(clients(), cluster_.nodes());
  run_for(2 * kSecond);
  EXPECT_EQ(clients(), 0u);
  EXPECT_TRUE(client_->reachable());
  EXPECT_EQ(client_->page_bytes(), kPageBytes);
}

TEST_P(Rest, PagesComeAfterARest) {
  for (int again = 0; again < 3; ++again) {
    rest();
    for (uint64_t number = 0; number < 8; ++number) {
      const PageVerdict verdict = engine_->fetch(test_key(number), 0, 10 * kMillisecond);
      EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
      EXPECT_EQ(engine_->put_number_of(test_key(number)), number);
    }
  }
}

TEST_P(Rest, PutsComeAfterARest) {
  rest();
  EXPECT_EQ(engine_->put(test_key(1), 7, 10 * kMillisecond).code, Code::kOk);
  EXPECT_EQ(engine_->fetch(test_key(1)).verdict, Verdict::kReady);
  EXPECT_EQ(engine_->put_number_of(test_key(1)), 7u);
}

TEST_P(Rest, RemovesComeAfterARest) {
  rest();
  const PageKey key = test_key(1);
  EXPECT_EQ(client_->remove({&key, 1}, now() + 10 * kMillisecond).wait().value(), 1u);
  EXPECT_EQ(engine_->fetch(key).reason, Reason::kMiss);
}

TEST_P(Rest, QuestionsAreAnsweredAfterARest) {
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < 8; ++number) keys.push_back(test_key(number));
  for (int again = 0; again < 2; ++again) {
    rest();
    std::vector<KeyAnswer> answers(keys.size());
    engine_->lane().ask(keys, answers, now() + 10 * kMillisecond).wait();
    EXPECT_EQ(std::ranges::count(answers, KeyAnswer::kShown), 8);
  }
}

TEST_P(Rest, ALaneOpensAfterARest) {
  rest();
  EXPECT_TRUE(client_->open_lane());
  rest();
  EXPECT_TRUE(client_->node_status(now() + kSecond));
}

TEST_P(Rest, NodesThatDiedMeanwhileAreUnreachableAtOnce) {
  rest();
  for (size_t node = 0; node < cluster_.nodes(); ++node) {
    cluster_.end_node(NodeEnd::kKilled, node);
  }
  const uint64_t began = now();
  EXPECT_EQ(engine_->fetch(test_key(1), 0, 500 * kMillisecond).reason, Reason::kUnreachable);
  // With a register, others may have come in their place, of whom the client has yet to hear.
  const uint64_t patience_ns =
      cluster_.epochs() == nullptr ? 10 * kMillisecond : 500 * kMillisecond;
  EXPECT_LE(now(), began + patience_ns);
  EXPECT_FALSE(client_->reachable());
  run_for(2 * kRest);
  EXPECT_FALSE(client_->reachable());
}

TEST_P(Rest, NodesThatBeganAnewMeanwhileAreReachedAgain) {
  rest();
  for (size_t node = 0; node < cluster_.nodes(); ++node) {
    cluster_.end_node(NodeEnd::kKilled, node);
    cluster_.start_node(node);
    run_for(kSecond);
  }
  EXPECT_EQ(engine_->put(test_key(1), 9).code, Code::kOk);
  EXPECT_EQ(engine_->fetch(test_key(1)).verdict, Verdict::kReady);
  EXPECT_EQ(engine_->put_number_of(test_key(1)), 9u);
}

TEST_P(Rest, NodesKeepTheirLinksToEachOther) {
  rest();
  run_for(60 * kSecond);
  for (size_t node = 0; node < cluster_.nodes(); ++node) {
    const StatusReply status = cluster_.node_service(node).status();
    if (cluster_.nodes() == 1) continue;
    EXPECT_EQ(status.fleet.others.size(), cluster_.nodes() - 1);
    for (const MemberStatus& other : status.fleet.others) EXPECT_TRUE(other.reached);
  }
}

// Under a register; one of its nodes leaves while the client sleeps.
class RestOfARegister : public Rest {
 protected:
  RestOfARegister() {
    const Epoch before = epochs().current().epoch;
    const Placement placement(before);
    for (uint64_t number = 100;; ++number) {
      const ReplicaSet set = placement.replicas(at_living_nodes_ = test_key(number));
      const auto is_dead = [&](size_t rank) {
        return before.members[set[rank]].node == node_id("n0");
      };
      if (!is_dead(0) && !is_dead(1)) break;
    }
    run_for(kRest + 2 * kView);
    cluster_.end_node(NodeEnd::kKilled, 0);
    run_for(5 * kSecond);
    EXPECT_EQ(clients(), 0u);
    EXPECT_GT(epochs().current().epoch.number, client_->epoch());
    EXPECT_EQ(epochs().current().epoch.members.size(), 2u);
    reads_ = reads();
  }
  SimRegister& epochs() { return *cluster_.epochs(); }
  uint64_t reads() { return epochs().reads(cluster_.client_host(0)); }

  uint64_t reads_;
  PageKey at_living_nodes_;  // in the epoch of before
};

TEST_P(RestOfARegister, FirstPageComesFromTheNodesOfTheEpochThatThereIs) {
  for (uint64_t number = 0; number < 8; ++number) {
    const PageVerdict verdict = engine_->fetch(test_key(number), 0, 500 * kMillisecond);
    EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  }
  EXPECT_EQ(client_->epoch(), epochs().current().epoch.number);
}

TEST_P(RestOfARegister, FirstPutGoesToTheNodesOfTheEpochThatThereIs) {
  for (uint64_t number = 0; number < 8; ++number) {
    EXPECT_EQ(engine_->put(test_key(number), 9, 500 * kMillisecond).code, Code::kOk);
  }
}

TEST_P(RestOfARegister, FirstRemoveGoesToTheNodesOfTheEpochThatThereIs) {
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < 8; ++number) keys.push_back(test_key(number));
  Remove remove = client_->remove(keys, now() + 500 * kMillisecond);
  // What another thread asks at the same time waits too.
  EXPECT_EQ(engine_->fetch(test_key(100), 0, 500 * kMillisecond).reason, Reason::kMiss);
  EXPECT_EQ(remove.wait().value(), 8u);
}

TEST_P(RestOfARegister, QuestionsWaitForTheEpochThatThereIs) {
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < 8; ++number) keys.push_back(test_key(number));
  std::vector<KeyAnswer> answers(keys.size());
  engine_->lane().ask(keys, answers, now() + 500 * kMillisecond).wait();
  EXPECT_EQ(std::ranges::count(answers, KeyAnswer::kShown), 8);
}

TEST_P(RestOfARegister, ALivingNodeTellsTheEpoch) {
  EXPECT_EQ(engine_->fetch(at_living_nodes_, 0, 500 * kMillisecond).reason, Reason::kMiss);
  EXPECT_EQ(client_->epoch(), epochs().current().epoch.number);
  EXPECT_EQ(reads(), reads_);
}

INSTANTIATE_TEST_SUITE_P(Nodes, RestOfARegister,
                         testing::Values(Nodes{"register", registered_nodes()}),
                         [](const auto& info) { return info.param.name; });

// A link that is used, each time shortly before it would rest.
class RestOfOne : public Rest {
 protected:
  void keep_using(const std::function<void()>& use) {
    for (int i = 0; i < 10; ++i) {
      run_for(kRest / 2);
      use();
    }
    RecordedMetrics metrics;
    client_->describe(metrics);
    EXPECT_EQ(metrics.values.at("farpage_client_link_rests_total"), 0);
    EXPECT_EQ(clients(), 1u);
  }
};

TEST_P(RestOfOne, AFetchIsUse) {
  keep_using([&] { EXPECT_EQ(engine_->fetch(test_key(1)).verdict, Verdict::kReady); });
}

TEST_P(RestOfOne, AQuestionIsUse) {
  const PageKey key = test_key(1);
  keep_using([&] {
    KeyAnswer answer;
    engine_->lane().ask({&key, 1}, {&answer, 1}, now() + kSecond).wait();
    EXPECT_EQ(answer, KeyAnswer::kShown);
  });
}

TEST_P(RestOfOne, APutIsUse) {
  keep_using([&] { EXPECT_EQ(engine_->put(test_key(1), 1).code, Code::kOk); });
}

TEST_P(RestOfOne, ARemoveIsUse) {
  const PageKey key = test_key(1);
  keep_using([&] { EXPECT_TRUE(client_->remove({&key, 1}, now() + kSecond).wait()); });
}

TEST_P(RestOfOne, ClientThatRestsSendsNothing) {
  rest();
  const uint64_t before = cluster_.control_messages();
  run_for(100 * kSecond);
  EXPECT_EQ(cluster_.control_messages(), before);
}

INSTANTIATE_TEST_SUITE_P(Nodes, Rest,
                         testing::Values(Nodes{"one", one_node()}, Nodes{"list", three_nodes()},
                                         Nodes{"register", registered_nodes()}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Nodes, RestOfOne, testing::Values(Nodes{"one", one_node()}),
                         [](const auto& info) { return info.param.name; });

TEST(RestOfNone, ClientReadsNoRegister) {
  SimCluster cluster(1, registered_nodes());
  const auto client = cluster.connect(0, {.staging_bytes = 0, .rest_ms = 1'000}).value();
  cluster.world().run_until(cluster.now_ns() + 2 * kSecond);
  const uint64_t before = cluster.epochs()->reads(cluster.client_host(0));
  cluster.world().run_until(cluster.now_ns() + 100 * kSecond);
  EXPECT_EQ(cluster.epochs()->reads(cluster.client_host(0)), before);
}

TEST(RestOfNone, ZeroKeepsAllLinks) {
  SimCluster cluster(1, one_node());
  const auto client = cluster.connect(0, {.staging_bytes = 0, .rest_ms = 0}).value();
  cluster.world().run_until(cluster.now_ns() + 1'000 * kSecond);
  EXPECT_EQ(cluster.node_service(0).status().clients, 1u);
}

}  // namespace
}  // namespace farpage
