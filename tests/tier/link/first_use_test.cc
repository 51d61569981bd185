#include <gtest/gtest.h>

#include <set>

#include "tests/tier/fleet.h"

namespace farpage {
namespace {

// A client that has dialled one of eight nodes, and needs others now.
class FirstUse : public FleetTest {
 protected:
  static SimClusterOptions options() {
    SimClusterOptions options = three_nodes();
    options.nodes = 8;
    options.clients = 2;
    return options;
  }
  FirstUse() : FleetTest(options()) {
    ClientOptions client;
    client.staging_bytes = 64 * kKiB;
    before_ = clients_of_nodes();
    fresh_client_ = cluster_.connect(1, client).value();
    fresh_.emplace(*fresh_client_, kPageBytes, 64);
    run_for(kView);
  }

  std::vector<uint64_t> clients_of_nodes() {
    std::vector<uint64_t> clients;
    for (size_t node = 0; node < cluster_.nodes(); ++node) {
      clients.push_back(cluster_.node_runs(node) ? cluster_.node_service(node).status().clients
                                                 : 0);
    }
    return clients;
  }
  std::set<size_t> dialled() {
    std::set<size_t> nodes;
    const std::vector<uint64_t> now = clients_of_nodes();
    for (size_t node = 0; node < now.size(); ++node) {
      if (now[node] > before_[node]) nodes.insert(node);
    }
    return nodes;
  }
  // A page that the other client has put, at nodes that this one has not dialled.
  PageKey strange_page() {
    for (uint64_t number = 0;; ++number) {
      const PageKey key = test_key(number);
      const auto nodes = nodes_of(key);
      if (dialled().contains(nodes[0]) || dialled().contains(nodes[1])) continue;
      EXPECT_EQ(engine().put(key, 1).code, Code::kOk);
      return key;
    }
  }
  // Its process is stopped: connections open, and nobody answers.
  void silence(size_t node) { cluster_.node_fabric(node).pause(); }

  std::vector<uint64_t> before_;
  std::unique_ptr<Client> fresh_client_;
  std::optional<Engine> fresh_;
};

TEST_F(FirstUse, NodesThatNobodyNeedsSeeNoConnection) {
  EXPECT_EQ(dialled().size(), 1u);
  run_for(100 * kView);
  EXPECT_EQ(dialled().size(), 1u);
}

TEST_F(FirstUse, FirstFetchDialsThePagesNodesAndNoOther) {
  const std::set<size_t> before = dialled();
  const PageKey key = strange_page();
  const PageVerdict verdict = fresh_->fetch(key);
  EXPECT_EQ(verdict.verdict, Verdict::kReady) << reason_name(verdict.reason);
  EXPECT_EQ(fresh_->put_number_of(key), 1u);
  std::set<size_t> expected = before;
  for (const size_t node : nodes_of(key)) expected.insert(node);
  run_for(kView);
  EXPECT_EQ(dialled(), expected);
}

TEST_F(FirstUse, PageComesFromTheReplicaThatAnswersFirst) {
  const PageKey key = strange_page();
  silence(nodes_of(key)[0]);
  const uint64_t began = now();
  EXPECT_EQ(fresh_->fetch(key).verdict, Verdict::kReady);
  EXPECT_LE(now(), began + 5 * kMillisecond);
}

TEST_F(FirstUse, SilentNodesAreUnreachableByTheDeadlineAndThenAtOnce) {
  const PageKey key = strange_page();
  for (const size_t node : nodes_of(key)) silence(node);
  const uint64_t began = now();
  EXPECT_EQ(fresh_->fetch(key, 0, 30 * kMillisecond).reason, Reason::kUnreachable);
  EXPECT_EQ(now(), began + 30 * kMillisecond);
  run_for(3 * kSecond);  // until the dial has come to nothing
  const uint64_t later = now();
  EXPECT_EQ(fresh_->fetch(key, 0, 30 * kMillisecond).reason, Reason::kUnreachable);
  EXPECT_EQ(now(), later);
}

TEST_F(FirstUse, DeadNodesAreUnreachableOnceTheDialHasFailed) {
  const PageKey key = strange_page();
  for (const size_t node : nodes_of(key)) cluster_.end_node(NodeEnd::kKilled, node);
  const uint64_t began = now();
  EXPECT_EQ(fresh_->fetch(key, 0, 500 * kMillisecond).reason, Reason::kUnreachable);
  EXPECT_LE(now(), began + 5 * kMillisecond);
}

TEST_F(FirstUse, NodeThatComesBackIsReachedWithoutAnotherFetch) {
  const PageKey key = strange_page();
  for (const size_t node : nodes_of(key)) silence(node);
  EXPECT_EQ(fresh_->fetch(key, 0, kMillisecond).reason, Reason::kUnreachable);
  for (const size_t node : nodes_of(key)) cluster_.node_fabric(node).resume();
  run_for(3 * kSecond);
  const uint64_t began = now();
  EXPECT_EQ(fresh_->fetch(key).verdict, Verdict::kReady);
  EXPECT_LE(now(), began + 5 * kMillisecond);
}

TEST_F(FirstUse, FirstPutWaitsForItsNodesOnly) {
  const PageKey key = strange_page();
  EXPECT_EQ(fresh_->put(key, 2).code, Code::kOk);
  EXPECT_EQ(fresh_->fetch(key).verdict, Verdict::kReady);
  EXPECT_EQ(fresh_->put_number_of(key), 2u);
}

TEST_F(FirstUse, FirstPutAtASilentNodeEndsByItsDeadline) {
  const PageKey key = strange_page();
  silence(nodes_of(key)[0]);
  const uint64_t began = now();
  const PutRequest request = {key, fresh_->slice(0)};
  Put put = fresh_client_->put({&request, 1}, now() + 30 * kMillisecond);
  EXPECT_EQ(put.wait()[0].code, Code::kUnavailable);
  EXPECT_NE(put.why().find("has not answered"), std::string::npos) << put.why();
  EXPECT_LE(now(), began + 30 * kMillisecond);
}

TEST_F(FirstUse, FirstRemoveWaitsForItsNode) {
  const PageKey key = strange_page();
  Remove remove = fresh_client_->remove({&key, 1}, now() + kSecond);
  EXPECT_EQ(remove.wait().value(), 1u);
  EXPECT_EQ(engine().fetch(key).reason, Reason::kMiss);
}

TEST_F(FirstUse, FirstRemoveAtASilentNodeEndsByItsDeadline) {
  const PageKey key = strange_page();
  silence(nodes_of(key)[0]);
  const uint64_t began = now();
  Remove remove = fresh_client_->remove({&key, 1}, now() + 30 * kMillisecond);
  EXPECT_FALSE(remove.wait());
  EXPECT_LE(now(), began + 30 * kMillisecond);
}

TEST_F(FirstUse, FirstQuestionIsAnsweredByAllNodes) {
  std::vector<PageKey> keys;
  for (uint64_t number = 0; number < 40; ++number) {
    keys.push_back(test_key(number));
    ASSERT_EQ(engine().put(keys.back(), number).code, Code::kOk);
  }
  std::vector<KeyAnswer> answers(keys.size());
  fresh_->lane().ask(keys, answers, now() + kSecond).wait();
  EXPECT_EQ(std::ranges::count(answers, KeyAnswer::kShown), 40);
}

TEST_F(FirstUse, ClientWhoseOnlyNodeIsSilentReachesAnother) {
  for (const size_t node : dialled()) silence(node);
  run_for(2 * kView);
  ASSERT_FALSE(fresh_client_->reachable());
  run_for(200 * kMillisecond);
  EXPECT_TRUE(fresh_client_->reachable());
  EXPECT_EQ(dialled().size(), 2u);
}

TEST_F(FirstUse, LaneOpensThoughTheOnlyNodeInUseIsSilent) {
  for (const size_t node : dialled()) silence(node);
  run_for(2 * kView);
  EXPECT_TRUE(fresh_client_->open_lane());
}

}  // namespace
}  // namespace farpage
