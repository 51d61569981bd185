// Puts and removes of many clients that wait at one node, in virtual time: the node passes over
// them in turns, so that other messages come between.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/node/raw_client.h"
#include "tests/node/sim_node.h"

namespace farpage {
namespace {

constexpr size_t kClients = 900;
constexpr size_t kMostInATurn = 256;
constexpr size_t kMostPagesInATurn = 512;
constexpr uint64_t kLongNs = 30 * kSecond;

class WriteTurns : public testing::Test {
 protected:
  WriteTurns() : cluster_(1, options()), raw_(cluster_) {
    EXPECT_TRUE(raw_.wait_for([&] {
      return cluster_.epochs()->current().all_confirmed() &&
             raw_.epoch_now().members.size() == cluster_.nodes();
    }));
    raw_.run_for(200 * kMillisecond);
    number_ = raw_.number_with({0});
  }

  static SimClusterOptions options() {
    SimClusterOptions options;
    options.nodes = 3;
    options.replicas = 2;
    options.uses_register = true;
    options.node.pool_bytes = 1'024 * (options.node.page_bytes + sizeof(PageHeader));
    return options;
  }
  ClientId connect() {
    const ClientId client = service().connected().value();
    HelloRequest hello{kControlProtocol, kPageFormat};
    hello.epoch = raw_.tag();
    service().handle(client, std::move(hello), [](const Reply& reply) {
      EXPECT_TRUE(std::holds_alternative<HelloReply>(reply));
    });
    raw_.run_for(0);
    return client;
  }
  // Waits for bytes that never come: it has no staging.
  void commit(ClientId client, uint64_t patience_ns) {
    CommitRequest request{1, patience_ns, {CommitPage{RawClient::key(number_), 0, 1, 0}}};
    request.epoch = raw_.tag();
    service().handle(client, std::move(request),
                     [this](Reply reply) { replies_.push_back(std::move(reply)); });
  }
  // Of pages that node 2 has to know of too.
  void remove_each(size_t all, uint64_t patience_ns) {
    std::vector<std::pair<ClientId, uint64_t>> removes;
    uint64_t number = 0;
    for (size_t i = 0; i < all; ++i, ++number) {
      number = raw_.number_with({0, 2}, number);
      removes.emplace_back(connect(), number);
    }
    for (const auto& [client, key] : removes) {
      RemoveRequest request{{RawClient::key(key)}, raw_.tag(), patience_ns};
      service().handle(client, std::move(request),
                       [this](Reply reply) { replies_.push_back(std::move(reply)); });
    }
  }
  // How many were refused with this.
  size_t refused(Code code) const {
    return static_cast<size_t>(std::ranges::count_if(replies_, [&](const Reply& reply) {
      const auto* refusal = std::get_if<Refusal>(&reply);
      return refusal != nullptr && refusal->code == code;
    }));
  }
  // All are answered, and no more of them than may be, at once and before the node does what came
  // behind the first.
  void expect_turns(size_t all, uint64_t patience_ns) {
    size_t most_at_once = 0, most_before_others = 0;
    size_t seen = replies_.size(), before = seen;
    bool is_behind = false;
    const auto look = [&] {
      most_before_others = std::max(most_before_others, replies_.size() - before);
      before = replies_.size();
      is_behind = false;
    };
    EXPECT_TRUE(cluster_.world().wait_until(cluster_.now_ns() + patience_ns, [&] {
      most_at_once = std::max(most_at_once, replies_.size() - seen);
      seen = replies_.size();
      if (seen > before && !std::exchange(is_behind, true)) cluster_.world().after(0, look);
      return before == all;
    }));
    EXPECT_LE(most_at_once, kMostInATurn);
    EXPECT_LE(most_before_others, 2 * kMostInATurn);  // the next turn is waiting already
  }
  NodeService& service() { return cluster_.node_service(0); }

  SimCluster cluster_;
  RawClient raw_;
  uint64_t number_ = 0;
  std::vector<Reply> replies_;
};

TEST_F(WriteTurns, PutsWhoseTimeEndsAtOnceAreAnsweredInTurns) {
  constexpr uint64_t kPatienceNs = 50 * kMillisecond;
  for (size_t i = 0; i < kClients; ++i) commit(connect(), kPatienceNs);
  const uint64_t begun_ns = cluster_.now_ns();
  expect_turns(kClients, kSecond);
  EXPECT_EQ(cluster_.now_ns(), begun_ns + kPatienceNs);
  for (const Reply& reply : replies_) {
    EXPECT_EQ(std::get<CommitReply>(reply).results.at(0).code, Code::kAborted);
  }
}

TEST_F(WriteTurns, PutsThatWaitAreRefusedInTurnsOnceTheEpochIsAnother) {
  for (size_t i = 0; i < kClients; ++i) commit(connect(), kLongNs);
  cluster_.end_node(NodeEnd::kPowerLost, 2);
  expect_turns(kClients, kLongNs / 2);
  for (const Reply& reply : replies_) {
    const auto* refusal = std::get_if<Refusal>(&reply);
    ASSERT_NE(refusal, nullptr);
    EXPECT_EQ(refusal->code, Code::kOtherEpoch);
    EXPECT_EQ(refusal->epoch, raw_.tag());
  }
}

// As where an answer cannot be sent.
TEST_F(WriteTurns, RefusalMayEndItsClientAndOthers) {
  std::vector<ClientId> clients;
  for (size_t i = 0; i < kClients; ++i) clients.push_back(connect());
  size_t answered = 0;
  for (size_t i = 0; i < kClients; ++i) {
    CommitRequest request{1, kLongNs, {CommitPage{RawClient::key(number_), 0, 1, 0}}};
    request.epoch = raw_.tag();
    service().handle(clients[i], std::move(request), [&, i](const Reply&) {
      ++answered;
      for (size_t gone = i; gone < std::min(i + 10, kClients); ++gone) {
        service().disconnected(clients[gone]);
      }
    });
  }
  cluster_.end_node(NodeEnd::kPowerLost, 2);
  raw_.run_for(kLongNs / 2);
  EXPECT_GE(answered, kClients / 10);
  EXPECT_LT(answered, kClients);
}

TEST_F(WriteTurns, ClientsThatGoWhileOthersAreAnsweredAreNotAnswered) {
  std::vector<ClientId> clients;
  for (size_t i = 0; i < kClients; ++i) clients.push_back(connect());
  for (const ClientId client : clients) commit(client, 50 * kMillisecond);
  cluster_.world().wait_until(cluster_.now_ns() + kSecond, [&] { return !replies_.empty(); });
  const size_t answered = replies_.size();
  ASSERT_LE(answered, kMostInATurn);
  for (size_t i = answered; i < kClients; i += 2) service().disconnected(clients[i]);
  raw_.run_for(kSecond);
  EXPECT_EQ(replies_.size(), answered + (kClients - answered) / 2);
}

TEST_F(WriteTurns, RemovesThatAReplicaDoesNotAnswerInTimeEndInTurns) {
  constexpr uint64_t kPatienceNs = 5 * kMillisecond;
  remove_each(kClients, kPatienceNs);
  const uint64_t begun_ns = cluster_.now_ns();
  cluster_.silence_links(cluster_.node_host(0), cluster_.node_host(2));
  expect_turns(kClients, kSecond);
  EXPECT_EQ(cluster_.now_ns(), begun_ns + kPatienceNs);
  EXPECT_EQ(refused(Code::kTimeout), kClients);
}

// Some have been answered before.
TEST_F(WriteTurns, RemovesWhoseReplicaHangsUpEndInTurns) {
  remove_each(kClients, kLongNs);
  cluster_.cut_links(cluster_.node_host(0), cluster_.node_host(2));
  expect_turns(kClients, kLongNs / 2);
  EXPECT_GT(refused(Code::kUnavailable), 2 * kMostInATurn);
}

TEST_F(WriteTurns, RemovesWhoseReplicaIsGivenUpEndInTurns) {
  remove_each(kClients, kLongNs);
  cluster_.silence_links(cluster_.node_host(0), cluster_.node_host(2));
  expect_turns(kClients, kLongNs / 2);
  EXPECT_EQ(refused(Code::kUnavailable), kClients);
}

// Of several puts, more than end in a turn.
TEST_F(WriteTurns, PagesWhosePutsEndInTurnsCanBePutAgain) {
  constexpr size_t kPuts = 6, kPages = 100;
  std::vector<std::vector<std::pair<uint64_t, uint64_t>>> puts(kPuts);
  uint64_t number = 0;
  for (auto& pages : puts) {
    for (size_t i = 0; i < kPages; ++i, ++number) {
      number = raw_.number_with({0, 2}, number);
      pages.emplace_back(number, 1);
    }
  }
  raw_.put(puts[0][0].first, 1);  // so that it has its session
  cluster_.silence_links(cluster_.node_host(0), cluster_.node_host(2));
  std::vector<std::shared_ptr<RawClient::Answer>> answers;
  for (const auto& pages : puts) answers.push_back(raw_.begin_put(0, pages, kLongNs));
  for (const auto& answer : answers) {
    const auto results = raw_.results(answer);
    ASSERT_EQ(results.size(), kPages);
    for (const CommitResult& result : results) EXPECT_EQ(result.code, Code::kUnavailable);
  }
  raw_.run_for(100 * kMillisecond);  // the node reaches the other again
  for (const auto& pages : puts) {
    for (const CommitResult& result : raw_.results(raw_.begin_put(0, pages, kLongNs))) {
      ASSERT_EQ(result.code, Code::kOk);
    }
  }
}

// Another member's end is known before that of the link.
TEST_F(WriteTurns, RemovesThatAnEpochEndsEndInTurns) {
  cluster_.end_node(NodeEnd::kPowerLost, 1);
  const uint64_t epoch = raw_.epoch_now().number;
  raw_.run_for(240 * kMillisecond);  // it is known after 248
  remove_each(kClients, kLongNs);
  ASSERT_EQ(raw_.epoch_now().number, epoch);
  cluster_.silence_links(cluster_.node_host(0), cluster_.node_host(2));
  expect_turns(kClients, kLongNs / 2);
  EXPECT_EQ(refused(Code::kOtherEpoch), kClients);
}

// Nothing of it moves bytes.
TEST(WriteTurnsAlone, LargeRemoveIsDoneInTurns) {
  SimNode node;
  SimClient client(node);
  ASSERT_EQ(client.put(kMaxRemoveKeys - 1).code, Code::kOk);
  RemoveRequest request;
  for (uint64_t i = 0; i < kMaxRemoveKeys; ++i) request.keys.push_back(sim_key(i));
  request.patience_ns = kLongNs;
  std::optional<Reply> answer;
  node.service().handle(client.id(), std::move(request),
                        [&](Reply reply) { answer = std::move(reply); });
  size_t turns = 0;
  node.world().wait_until(node.now(), [&] { return ++turns, answer.has_value(); });
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(std::get<RemoveReply>(*answer).removed, 1u);
  EXPECT_GE(turns, kMaxRemoveKeys / kMostPagesInATurn);
}

}  // namespace
}  // namespace farpage
