// A put that the end of its epoch finds half begun, in virtual time: no page of it is stored twice,
// as a reader of its primary sees it.
#include <gtest/gtest.h>

#include <set>

#include "node/memory_node.h"
#include "tests/node/raw_client.h"
#include "tests/support/posting.h"
#include "tests/support/temp_dir.h"
#include "tier/client.h"

namespace farpage {
namespace {

bool all_are_in(SimCluster& cluster) {
  const RegisteredEpoch& current = cluster.epochs()->current();
  return current.all_confirmed() && current.epoch.members.size() == cluster.nodes();
}

// Its second page waits for the first, which waits for a replica that reads slowly.
class HalfBegun : public testing::Test {
 protected:
  HalfBegun() : cluster_(1, options()), watcher_(cluster_, 1) {
    EXPECT_TRUE(watcher_.wait_for([&] { return all_are_in(cluster_); }));
    watcher_.run_for(100 * kMillisecond);
    number_ = watcher_.number_with({0, 1});
    cluster_.node_fabric(1).set_options(
        {.delay_min_ns = 200 * kMillisecond, .delay_max_ns = 200 * kMillisecond});
  }

  static SimClusterOptions options() {
    SimClusterOptions options;
    options.nodes = 3;
    options.replicas = 2;
    options.clients = 2;
    options.uses_register = true;
    return options;
  }
  // The primary learns it first: of the replica it would hear why the first page has ended.
  void end_epoch() {
    const uint64_t before = watcher_.epoch_now().number;
    cluster_.epochs()->set_unread(cluster_.node_host(1), true);
    cluster_.end_node(NodeEnd::kPowerLost, 2);
    ASSERT_TRUE(watcher_.wait_for([&] { return watcher_.status(0).epoch > before; }));
    cluster_.epochs()->set_unread(cluster_.node_host(1), false);
    cluster_.node_fabric(1).set_options({});
  }

  SimCluster cluster_;
  RawClient watcher_;
  uint64_t number_ = 0;
};

TEST_F(HalfBegun, PutIsAnsweredPageByPage) {
  const auto answer = watcher_.begin_put(0, {{number_, 1}, {number_, 2}}, 5 * kSecond);
  end_epoch();
  const auto results = watcher_.results(answer, kSecond);
  ASSERT_EQ(results.size(), 2u) << "refused whole, it would be sent again whole";
  for (const CommitResult& result : results) EXPECT_EQ(result.code, Code::kOtherEpoch);
  EXPECT_EQ(watcher_.put(number_, 3).code, Code::kOk);
}

TEST_F(HalfBegun, PutOfAClientHasOneVersionAPage) {
  auto client = cluster_.connect(0).value();
  watcher_.run_for(100 * kMillisecond);
  std::vector<std::byte> pages = RawClient::bytes_of(number_, 1);
  const uint64_t bytes = pages.size();
  std::ranges::copy(RawClient::bytes_of(number_, 2), std::back_inserter(pages));
  const Region region = client->register_memory({pages.data(), pages.size()}).value();
  const PageKey key = RawClient::key(number_);
  const std::vector<PutRequest> requests = {{key, region.slice(0, bytes)},
                                            {key, region.slice(bytes, bytes)}};
  Put put = client->put(requests, cluster_.now_ns() + 600 * kMillisecond);
  std::map<std::vector<std::byte>, std::set<Version>> versions;
  const auto watch_for = [&](uint64_t duration_ns) {
    for (const uint64_t until = cluster_.now_ns() + duration_ns; cluster_.now_ns() < until;) {
      const auto found = watcher_.read(0, number_);
      if (found) versions[found->bytes].insert(found->version);
    }
  };
  watch_for(kMillisecond);
  ASSERT_EQ(versions.size(), 1u);
  end_epoch();
  watch_for(300 * kMillisecond);
  for (const auto& [page, its] : versions) EXPECT_EQ(its.size(), 1u);
  EXPECT_TRUE(put.done());
  EXPECT_EQ(put.wait()[0].code, Code::kUnavailable) << "it began, and nobody knows how it ended";
}

// A node that is alone in its fleet, and is left out.
class LeftOut : public testing::Test {
 protected:
  static constexpr uint64_t kPage = 32 * kKiB;

  // The answer to a greeting.
  HelloReply greet(ClientId id) {
    HelloRequest hello;
    hello.staging_bytes = kPage;
    hello.epoch = epoch_;
    std::optional<Reply> reply;
    node_->handle(id, hello, [&](Reply given) { reply = std::move(given); });
    EXPECT_TRUE(world_.wait_until(world_.now_ns() + kSecond, [&] { return reply.has_value(); }));
    return std::move(std::get<HelloReply>(*reply));
  }

  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  const TempDir dir_;
  const Fleet fleet_ = {{1, 1, 1, kPage, {{7, 0, false, 0}}}, nullptr, 0, nullptr};
  const EpochTag epoch_ = {1, fleet_.list.identity()};
  std::unique_ptr<MemoryNode> node_ = make();

 private:
  std::unique_ptr<MemoryNode> make() {
    NodeOptions options = small_sim_node();
    options.page_bytes = kPage;
    options.pool_bytes = 256 * (kPage + sizeof(PageHeader));
    auto file = EpochFile::open(dir_ / "node.state").value();
    const auto versions = std::make_shared<Versions>(std::make_shared<EpochFile>(std::move(file)),
                                                     1, 0, world_.now_ns());
    auto run = MemoryNode::make_run(options, fabric_.runtime(), fabric_, versions,
                                    MemoryBudget::make("b", kMiB), nullptr, {})
                   .value();
    return MemoryNode::create(options, fabric_.runtime(), fabric_, std::move(run), fleet_, 7, [] {})
        .value();
  }
};

// More pages than end in a turn.
TEST_F(LeftOut, EveryReplicationThatIsUnderWayIsAnswered) {
  constexpr size_t kRemoves = 900;
  const ClientId id = node_->connected().value();
  greet(id);
  std::vector<Reply> replies;
  RemoveRequest request{{}, epoch_, kSecond};
  for (uint64_t number = 0; number < kRemoves; ++number) {
    request.keys.push_back(RawClient::key(number));
  }
  node_->handle(id, std::move(request), [&](Reply reply) { replies.push_back(std::move(reply)); });
  ASSERT_TRUE(replies.empty());
  node_->withdraw([] {});
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(std::get<Refusal>(replies[0]).code, Code::kOtherEpoch);
}

// A commit of more than a node copies in one turn.
TEST_F(LeftOut, LongCommitOfWhichAPartHasBegunIsAnsweredPageByPage) {
  constexpr uint64_t kPages = 200;  // 6 MiB, and a turn copies 4
  sim::SimFabric client(world_, {});
  const ClientId id = node_->connected().value();
  auto greeted = greet(id);
  const auto channel = client.connect(std::move(greeted.staging_offer), kNever).value();
  std::vector<std::byte> bytes(kPage, std::byte{7});
  const Region local = client.register_local({bytes.data(), bytes.size()}).value();
  Operation write;
  write.kind = OperationKind::kWrite;
  write.has_immediate = true;
  write.immediate = make_immediate(0, 1);
  write.remote = import_whole(*channel, std::move(greeted.staging)).value();
  write.local_count = 1;
  write.local[0] = local.slice(0, kPage);
  ASSERT_EQ(post_operations(*channel, {&write, 1}).accepted, 1u);
  world_.run_until(world_.now_ns() + kMillisecond);

  CommitRequest commit = {write.immediate, kSecond, {}, epoch_};
  for (uint64_t number = 0; number < kPages; ++number) {
    commit.pages.push_back({RawClient::key(number), 0, kPage, crc32c(0, bytes.data(), kPage)});
  }
  std::optional<Reply> reply;
  node_->handle(id, std::move(commit), [&](Reply given) { reply = std::move(given); });
  const uint64_t begun = node_->status().slots_live;
  ASSERT_GT(begun, 0u);
  ASSERT_LT(begun, kPages);
  node_->withdraw([] {});
  ASSERT_TRUE(reply.has_value());
  ASSERT_TRUE(std::holds_alternative<CommitReply>(*reply));
  const auto& results = std::get<CommitReply>(*reply).results;
  ASSERT_EQ(results.size(), kPages);
  for (const CommitResult& result : results) EXPECT_EQ(result.code, Code::kOtherEpoch);
}

}  // namespace
}  // namespace farpage
