// Pages that a replica takes over from another member, in virtual time.
#include <gtest/gtest.h>

#include "tests/node/fleet/three_nodes.h"
#include "transport/forwarding_fabric.h"

namespace farpage {
namespace {

// A node that reaches the others with its messages, and reads nothing of theirs.
class BlindFabric final : public ForwardingFabric {
 public:
  BlindFabric(Fabric& fabric, const bool& blind) : ForwardingFabric(fabric), blind_(blind) {}
  Result<std::unique_ptr<Initiator>> connect(ChannelOffer offer, uint64_t deadline_ns) override {
    if (blind_) return fail(Code::kUnavailable, "it cannot be dialled");
    return ForwardingFabric::connect(std::move(offer), deadline_ns);
  }

 private:
  const bool& blind_;
};

class BlindReplica : public testing::Test {
 protected:
  BlindReplica() : cluster_(1, options()), client_(cluster_) { settle(client_); }

  SimClusterOptions options() {
    SimClusterOptions options = three_nodes();
    options.node.pool_bytes = 256 * (512 + sizeof(PageHeader));
    options.wrap_node = [this](size_t node, sim::SimFabric& own) -> std::unique_ptr<Fabric> {
      if (node != 1) return std::make_unique<ForwardingFabric>(own);
      return std::make_unique<BlindFabric>(own, blind_);
    };
    return options;
  }
  // Of node 0, which they go through, to node 1.
  std::vector<std::pair<uint64_t, uint64_t>> pages(size_t count) {
    std::vector<std::pair<uint64_t, uint64_t>> puts;
    uint64_t number = 0;
    while (puts.size() < count) {
      number = client_.number_with({0, 1}, number + 1);
      puts.emplace_back(number, 1);
    }
    return puts;
  }

  bool blind_ = true;
  SimCluster cluster_;
  RawClient client_;
};

TEST_F(BlindReplica, PageWhosePutHasEndedBeforeItsTurnIsNotReadAnyMore) {
  const auto puts = pages(100);
  for (const CommitResult& result :
       client_.results(client_.begin_put(0, puts, 100 * kMillisecond))) {
    EXPECT_EQ(result.code, Code::kTimeout);
  }
  client_.run_for(100 * kMillisecond);
  blind_ = false;
  client_.run_for(kSecond);
  size_t read = 0;
  for (const auto& [number, put] : puts) read += client_.holds(1, number, put) ? 1 : 0;
  EXPECT_LE(read, 32u) << "those whose turn had come";
  EXPECT_EQ(client_.put(client_.number_with({0, 1}), 2).code, Code::kOk);
}

// A run of node 0 that says hello to node 1: its newest session, if it is taken.
class OtherMember {
 public:
  OtherMember(SimCluster& cluster, const EpochTag& epoch, uint64_t incarnation = 0)
      : cluster_(cluster),
        service_(cluster.node_service(1)),
        id_(service_.connected().value()),
        epoch_(epoch) {
    HelloRequest hello;
    hello.node = node_id("n0");
    hello.incarnation = incarnation;
    hello.epoch = epoch_;
    const auto answer = send(hello);
    EXPECT_TRUE(answer->reply.has_value());
    taken = answer->reply && std::holds_alternative<HelloReply>(*answer->reply);
  }

  std::shared_ptr<RawClient::Answer> send(Request request) {
    auto answer = std::make_shared<RawClient::Answer>();
    service_.handle(id_, std::move(request), [this, answer](Reply reply) {
      answer->reply = std::move(reply);
      answer->at_ns = cluster_.now_ns();
    });
    return answer;
  }
  std::shared_ptr<RawClient::Answer> replicate(size_t pages, const PageKey& key,
                                               uint64_t patience_ns) {
    ReplicateRequest request = {epoch_, {}, patience_ns};
    request.pages.resize(pages);
    for (ReplicaPage& page : request.pages) page.page = {key, make_version(1, 1), 0, 256, false};
    return send(std::move(request));
  }

  bool taken = false;

 private:
  SimCluster& cluster_;
  NodeService& service_;
  const ClientId id_;
  const EpochTag epoch_;
};

TEST_F(BlindReplica, WhatWaitsIsAnsweredSoonAfterItsPatience) {
  OtherMember other(cluster_, client_.tag());
  const uint64_t start = cluster_.now_ns();
  const auto answer =
      other.replicate(kMaxReplicaPages, client_.key(pages(1)[0].first), 100 * kMillisecond);
  ASSERT_TRUE(client_.wait_for([&] { return answer->reply.has_value(); }));
  EXPECT_LE(answer->at_ns, start + 4 * kSecond) << "the reads that had begun end after 3 s";
  const auto& codes = std::get<ReplicateReply>(*answer->reply).codes;
  ASSERT_EQ(codes.size(), kMaxReplicaPages);
  EXPECT_EQ(std::ranges::count(codes, Code::kUnavailable), 32);
  EXPECT_EQ(std::ranges::count(codes, Code::kTimeout), kMaxReplicaPages - 32);
}

TEST_F(BlindReplica, SoManyPagesOfAMemberWaitAndNoMore) {
  OtherMember other(cluster_, client_.tag());
  const PageKey key = client_.key(pages(1)[0].first);
  std::vector<std::shared_ptr<RawClient::Answer>> answers;
  for (int i = 0; i < 64; ++i) {
    answers.push_back(other.replicate(kMaxReplicaPages, key, 100 * kMillisecond));
    ASSERT_FALSE(answers.back()->reply.has_value());
  }
  const auto refused = other.replicate(1, key, 100 * kMillisecond);
  ASSERT_TRUE(refused->reply.has_value());
  EXPECT_EQ(std::get<Refusal>(*refused->reply).code, Code::kExhausted);
  client_.run_for(4 * kSecond);
  for (const auto& answer : answers) EXPECT_TRUE(answer->reply.has_value());
  EXPECT_FALSE(other.replicate(1, key, 100 * kMillisecond)->reply.has_value());
}

// Node 0 is one of the epoch's, in the run that it is.
class RegisteredReplica : public testing::Test {
 protected:
  RegisteredReplica() : cluster_(1, options()), client_(cluster_) {
    EXPECT_TRUE(client_.wait_for([&] {
      return std::ranges::all_of(client_.epoch_now().members, &Member::incarnation) &&
             cluster_.epochs()->current().all_confirmed();
    }));
    client_.run_for(200 * kMillisecond);
    number_ = client_.number_with({0, 1});
    EXPECT_EQ(client_.put(number_, 1).code, Code::kOk);
  }
  static SimClusterOptions options() {
    SimClusterOptions options = three_nodes();
    options.uses_register = true;
    return options;
  }
  uint64_t incarnation() { return client_.status(0).incarnation; }

  SimCluster cluster_;
  RawClient client_;
  uint64_t number_ = 0;
};

TEST_F(RegisteredReplica, RunThatIsNotTheEpochsTakesNoStream) {
  const OtherMember older(cluster_, client_.tag(), incarnation() + 2);
  EXPECT_FALSE(older.taken);
  EXPECT_EQ(client_.put(number_, 2).code, Code::kOk);
  const OtherMember itself(cluster_, client_.tag(), incarnation());
  EXPECT_TRUE(itself.taken);
}

TEST_F(RegisteredReplica, RunOfALaterEpochIsBelievedUntilThatIsEntered) {
  EpochTag next = client_.tag();
  ++next.number;
  OtherMember other(cluster_, next, incarnation() + 2);
  EXPECT_TRUE(other.taken);
  cluster_.end_node(NodeEnd::kPowerLost, 2);
  ASSERT_TRUE(client_.wait_for([&] {
    return client_.epoch_now().members.size() == 2 && cluster_.epochs()->current().all_confirmed();
  }));
  ASSERT_EQ(client_.epoch_now().number, next.number);
  const auto refused = other.send(ReplicateRequest{client_.tag(), {{}}, kSecond});
  ASSERT_TRUE(refused->reply && std::holds_alternative<Refusal>(*refused->reply));
  EXPECT_EQ(std::get<Refusal>(*refused->reply).code, Code::kDenied);
}

}  // namespace
}  // namespace farpage
