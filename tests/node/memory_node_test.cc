#include <gtest/gtest.h>

#include "pagetable/touch_log.h"
#include "sim/sim_pool_keeper.h"
#include "tests/node/sim_node.h"
#include "tests/support/posting.h"

namespace farpage {
namespace {

Refusal refusal_of(Reply reply) {
  const auto* refusal = std::get_if<Refusal>(&reply);
  EXPECT_NE(refusal, nullptr);
  return refusal == nullptr ? Refusal{Code::kOk, ""} : *refusal;
}

void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(MemoryNode, OtherVersionOfTheProtocolIsRefusedWithBothNumbers) {
  SimNode node;
  const ClientId client = node.service().connected().value();
  Refusal refused = refusal_of(node.ask(client, HelloRequest{99, kPageFormat, 0}));
  EXPECT_EQ(refused.code, Code::kProtocol);
  expect_says(refused.message, "control protocol 5");
  expect_says(refused.message, "99");
  expect_says(refused.message, "the same version of farpage");
  refused = refusal_of(node.ask(client, HelloRequest{kControlProtocol, 42, 0}));
  EXPECT_EQ(refused.code, Code::kProtocol);
  expect_says(refused.message, "42");
  // It is no hello, so the client has not been let in.
  refused = refusal_of(node.ask(client, RenewRequest{}));
  expect_says(refused.message, "hello");
}

// It says nothing of its patience with a remove, and would be answered that it is over.
TEST(MemoryNode, PeerOfBeforeThePatienceOfRemovesIsRefused) {
  SimNode node;
  const ClientId client = node.service().connected().value();
  const Refusal refused = refusal_of(node.ask(client, HelloRequest{1, kPageFormat, 0}));
  EXPECT_EQ(refused.code, Code::kProtocol);
  expect_says(refused.message, "control protocol 5 with page format 1, the client 1 with 1");
}

// What a client says that it knew, of a node that may have been another one under this name.
std::string warning_at_hello(SimNode& node, uint64_t known_epoch, uint64_t known_incarnation) {
  const ClientId client = node.service().connected().value();
  HelloRequest hello;
  hello.known_epoch = known_epoch;
  hello.known_incarnation = known_incarnation;
  testing::internal::CaptureStderr();
  (void)node.ask(client, hello);
  return testing::internal::GetCapturedStderr();
}

TEST(MemoryNode, NodeThatHasLostItsStateFileSaysHowItsClientsTakeItAgain) {
  for (const uint64_t known : {1, 2, 42}) {
    SimNode node;  // in epoch 1
    const std::string told = warning_at_hello(node, known, 12);
    expect_says(told, "gone back from epoch " + std::to_string(known));
    expect_says(told, "--set node.least_epoch=" + std::to_string(known + 1));
    EXPECT_EQ(warning_at_hello(node, known, 12), "") << "not with every dial";
  }
}

TEST(MemoryNode, ClientThatKnewThisRunOrAnEarlierOneIsNothingToTellOf) {
  SimNode node;
  node.restart();
  const ClientId client = node.service().connected().value();
  const StatusReply status = node.status(client);
  ASSERT_EQ(status.epoch, 2u);
  EXPECT_EQ(warning_at_hello(node, status.epoch, status.incarnation), "");
  EXPECT_EQ(warning_at_hello(node, status.epoch - 1, 12), "");
  EXPECT_EQ(warning_at_hello(node, 0, 12), "");
  EXPECT_EQ(warning_at_hello(node, UINT64_MAX, 12), "") << "no node can have had it";
}

TEST(MemoryNode, NodeBeginsInTheLeastEpochAndTakesPutsOnceTheLostRunsLeaseIsOver) {
  NodeOptions options = SimNode::small_options();
  options.least_epoch = 7;
  SimNode node(options);
  SimClient client(node);
  EXPECT_EQ(client.hello.epoch, 7u);
  const CommitPage page = client.stage(1, 0, 100);
  const auto answer = client.commit(client.send_and_arrive(100), {page}, 2 * kSecond);
  node.run_for(node.options().lease_ms * kMillisecond * 9 / 10);
  EXPECT_EQ(answer->times, 0);
  node.run_for(node.options().lease_ms * kMillisecond / 5);
  ASSERT_EQ(answer->times, 1);
  EXPECT_EQ(version_epoch(answer->results[0].version), 7u);
}

TEST(MemoryNode, TooMuchStagingIsRefusedAndTheKeyIsNamed) {
  SimNode node;
  const ClientId client = node.service().connected().value();
  for (const uint64_t bytes : {node.options().max_staging_bytes + 1, UINT64_MAX}) {
    const Refusal refused =
        refusal_of(node.ask(client, HelloRequest{kControlProtocol, kPageFormat, bytes}));
    EXPECT_EQ(refused.code, Code::kInvalid);
    expect_says(refused.message, "node.max_staging_bytes");
    expect_says(refused.message, "client.staging_bytes");
  }
}

TEST(MemoryNode, FactsThatAreNoneAreRefused) {
  SimNode node;
  const auto hello = [&node](const std::string& facts) {
    HelloRequest request;
    request.facts = facts;
    return refusal_of(node.ask(node.service().connected().value(), request));
  };
  EXPECT_EQ(hello("model").message, "the line 'model' names no fact: write NAME=VALUE");
  EXPECT_EQ(hello("a=1\na=2").message, "the fact 'a' is named twice: name each fact once");
  EXPECT_EQ(hello("\n").message,
            "there are no facts: name what the pages depend on, such as model, revision and dtype");
  EXPECT_EQ(hello("a=\xFF").message, "facts are no text of UTF-8");
  const Refusal refused = hello("a=" + std::string(kMaxFactsBytes, 'x'));
  EXPECT_EQ(refused.code, Code::kInvalid);
  EXPECT_EQ(refused.message, "the client's facts have 16386 bytes, and 16384 are the most");
}

TEST(MemoryNode, NothingButStatusComesBeforeHello) {
  SimNode node;
  const ClientId client = node.service().connected().value();
  std::vector<Request> requests;
  requests.emplace_back(CommitRequest{1, kSecond, {CommitPage{}}});
  requests.emplace_back(OpenLaneRequest{});
  requests.emplace_back(RemoveRequest{{sim_key(1)}});
  requests.emplace_back(RenewRequest{});
  requests.emplace_back(OpenPushRequest{});
  requests.emplace_back(PushRequest{});
  for (Request& request : requests) {
    const Refusal refused = refusal_of(node.ask(client, std::move(request)));
    EXPECT_EQ(refused.code, Code::kProtocol);
    expect_says(refused.message, "hello");
  }
  EXPECT_EQ(node.status(client).clients, 0u) << "only who has said hello is a client";
  const SimClient greeted(node);
  EXPECT_EQ(node.status(client).clients, 1u);
}

TEST(MemoryNode, SecondHelloIsRefused) {
  SimNode node;
  const SimClient client(node);
  const Refusal refused =
      refusal_of(node.ask(client.id(), HelloRequest{kControlProtocol, kPageFormat, 4096}));
  EXPECT_EQ(refused.code, Code::kProtocol);
}

TEST(MemoryNode, UnknownClientIsNotServed) {
  SimNode node;
  node.service().handle(12345, StatusRequest{}, [](Reply) { FAIL(); });
  node.service().disconnected(12345);
}

TEST(MemoryNode, VersionsGrowAndAreOfTheEpoch) {
  SimNode node;
  SimClient client(node);
  Version last = 0;
  for (uint64_t i = 0; i < 10; ++i) {
    const CommitResult put = client.put(i % 3);
    ASSERT_EQ(put.code, Code::kOk);
    EXPECT_GT(put.version, last);
    EXPECT_EQ(version_epoch(put.version), client.hello.epoch);
    last = put.version;
  }
  const StatusReply status = node.status(client.id());
  EXPECT_EQ(status.puts, 10u);
  EXPECT_EQ(status.put_bytes, 10u * 512);
  EXPECT_EQ(status.slots_live, 3u);
  EXPECT_EQ(status.slots_live + status.slots_free + status.slots_cooling, status.slots);
}

TEST(MemoryNode, PageOutsideTheStagingIsInvalidForItselfAlone) {
  SimNode node;
  constexpr uint64_t kStaging = 4096;
  SimClient client(node, kStaging);
  const CommitPage good = client.stage(1, 0, 1024);
  const CommitPage last = client.stage(2, kStaging - 512, 512);
  const auto spoiled = [&](auto spoil) {
    CommitPage page = good;
    page.key = sim_key(99);
    spoil(page);
    return page;
  };
  const std::vector<CommitPage> pages = {
      good,
      spoiled([](CommitPage& page) { page.staging_offset = kStaging; }),
      spoiled([](CommitPage& page) { page.staging_offset = kStaging - 1023; }),
      spoiled([](CommitPage& page) { page.staging_offset = UINT64_MAX; }),
      spoiled([](CommitPage& page) { page.staging_offset = UINT64_MAX - 1023; }),
      spoiled([](CommitPage& page) { page.payload_bytes = UINT32_MAX; }),
      spoiled([](CommitPage& page) { page.payload_bytes = 0; }),
      spoiled([](CommitPage& page) { page.payload_bytes = 1025; }),  // longer than a slot
      last,
  };
  const auto answer = client.commit(client.send(kStaging), pages);
  node.run_for(kSecond);
  ASSERT_EQ(answer->times, 1);
  ASSERT_EQ(answer->results.size(), pages.size());
  for (size_t i = 0; i < pages.size(); ++i) {
    const bool is_good = i == 0 || i + 1 == pages.size();
    EXPECT_EQ(answer->results[i].code, is_good ? Code::kOk : Code::kInvalid) << i;
    EXPECT_EQ(answer->results[i].version != 0, is_good) << i;
  }
  EXPECT_EQ(node.status(client.id()).slots_live, 2u);
}

TEST(MemoryNode, PageWhoseBytesChangedIsRefused) {
  SimNode node;
  SimClient client(node);
  CommitPage page = client.stage(1, 0, 512);
  page.payload_crc ^= 1;
  const auto answer = client.commit(client.send(512), {page});
  node.run_for(kSecond);
  ASSERT_EQ(answer->results.size(), 1u);
  EXPECT_EQ(answer->results[0].code, Code::kAborted);
  EXPECT_EQ(node.status(client.id()).slots_live, 0u);
  EXPECT_EQ(node.status(client.id()).puts_refused, 1u);
}

TEST(MemoryNode, RemoveCountsWhatWasThere) {
  SimNode node;
  SimClient client(node);
  ASSERT_EQ(client.put(1).code, Code::kOk);
  ASSERT_EQ(client.put(2).code, Code::kOk);
  const RemoveRequest request = {{sim_key(1), sim_key(7), sim_key(1)}};
  EXPECT_EQ(std::get<RemoveReply>(node.ask(client.id(), request)).removed, 1u);
  EXPECT_EQ(node.status(client.id()).removes, 1u);
  EXPECT_EQ(node.status(client.id()).slots_live, 1u);
}

TEST(MemoryNode, ClientsHaveALimit) {
  NodeOptions options = SimNode::small_options();
  options.max_clients = 2;
  SimNode node(options);
  const ClientId first = node.service().connected().value();
  ASSERT_TRUE(node.service().connected().has_value());
  const auto third = node.service().connected();
  ASSERT_FALSE(third.has_value());
  EXPECT_EQ(third.error().code, Code::kExhausted);
  expect_says(third.error().message, "node.max_clients");
  node.service().disconnected(first);
  EXPECT_TRUE(node.service().connected().has_value());
}

TEST(MemoryNode, LanesHaveALimitAndCanBeReplaced) {
  NodeOptions options = SimNode::small_options();
  options.max_lanes = 2;
  SimNode node(options);
  SimClient client(node);
  const auto open = [&](uint64_t replaces) {
    return node.ask(client.id(), OpenLaneRequest{replaces});
  };
  const uint64_t first = std::get<OpenLaneReply>(open(0)).lane;
  ASSERT_NE(std::get<OpenLaneReply>(open(0)).lane, first);
  const Refusal refused = refusal_of(open(0));
  EXPECT_EQ(refused.code, Code::kExhausted);
  expect_says(refused.message, "node.max_lanes");
  refusal_of(open(777));
  EXPECT_NE(std::get<OpenLaneReply>(open(first)).lane, first);
  refusal_of(open(first));
}

TEST(MemoryNode, LaneCostsOneChannelAndNoMemory) {
  SimNode node;
  SimClient client(node);
  EXPECT_EQ(node.held().channels(), 1) << "the staging's";
  for (int lanes = 1; lanes <= 3; ++lanes) {
    ASSERT_TRUE(std::holds_alternative<OpenLaneReply>(node.ask(client.id(), OpenLaneRequest{})));
    EXPECT_EQ(node.held().channels(), 1 + lanes);
    EXPECT_EQ(node.held().memories(), 1);
  }
}

TEST(MemoryNode, MemberThatAsksForNoStagingHasNoTouchLogEither) {
  SimNode node;
  const ClientId member = node.service().connected().value();
  HelloRequest hello;
  hello.node = 7;
  ASSERT_TRUE(std::holds_alternative<HelloReply>(node.ask(member, hello)));
  EXPECT_EQ(node.held().memories(), 0);
  EXPECT_EQ(node.held().channels(), 0);
}

// A client that only reads, and writes its touch log as a hostile one would.
class Toucher {
 public:
  explicit Toucher(SimNode& node) : node_(node), memory_(sizeof(TouchLog)) {
    const ClientId client = node.service().connected().value();
    auto hello =
        std::get<HelloReply>(node.ask(client, HelloRequest{kControlProtocol, kPageFormat, 0}));
    channel_ = node.client_fabric().connect(std::move(hello.staging_offer), kNever).value();
    EXPECT_EQ(hello.staging.bytes, kTouchLogBytes);
    remote_ = import_whole(*channel_, std::move(hello.staging)).value();
    local_ = node.client_fabric().register_local({memory_.data(), memory_.size()}).value();
  }

  TouchLog& log() { return *reinterpret_cast<TouchLog*>(memory_.data()); }
  void write() {
    Operation write;
    write.kind = OperationKind::kWrite;
    write.remote = remote_;
    write.local_count = 1;
    write.local[0] = local_.slice(0, sizeof(TouchLog));
    ASSERT_EQ(post_operations(*channel_, {&write, 1}).accepted, 1u);
    node_.run_for(kMillisecond);
  }

 private:
  SimNode& node_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Initiator> channel_;
  RemoteRegion remote_;
  Region local_;
};

class MemoryNodeEviction : public testing::TestWithParam<std::string> {
 protected:
  static NodeOptions options() {
    NodeOptions options = SimNode::of_slots(8);
    options.eviction = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(By, MemoryNodeEviction, testing::Values("clock", "lru", "reuse_rate"));

TEST_P(MemoryNodeEviction, GarbageInATouchLogDoesNothingBad) {
  SimNode node(options());
  SimClient client(node);
  Toucher toucher(node);
  std::mt19937_64 random(1);
  uint64_t number = 0;
  for (const uint64_t written :
       {UINT64_MAX, uint64_t{0}, uint64_t{1}, uint64_t{kTouchRingSlots},
        uint64_t{kTouchRingSlots} * 1000 + 7, UINT64_MAX / 2, uint64_t{3}}) {
    toucher.log().written = written;
    for (uint32_t& slot : toucher.log().slots) {
      slot = random() % 2 == 0 ? static_cast<uint32_t>(random())
                               : static_cast<uint32_t>(random() % 10);
    }
    toucher.write();
    for (int i = 0; i < 10; ++i) ASSERT_EQ(client.put(++number).code, Code::kOk);
  }
  const StatusReply status = node.status(client.id());
  EXPECT_GT(status.evictions, 50u);
  EXPECT_EQ(status.slots_live + status.slots_free + status.slots_cooling, status.slots);
}

TEST_P(MemoryNodeEviction, TouchedPageSurvives) {
  SimNode node(options());
  SimClient client(node);
  Toucher toucher(node);
  ASSERT_EQ(client.put(0).code, Code::kOk);  // the first put of a fresh node goes to slot 0
  for (uint64_t number = 1; number < 50; ++number) {
    for (uint32_t i = 0; i < kTouchBlockSlots; ++i) {
      toucher.log().slots[(toucher.log().written + i) % kTouchRingSlots] = 0;
    }
    toucher.log().written += kTouchBlockSlots;
    toucher.write();
    ASSERT_EQ(client.put(number).code, Code::kOk);
  }
  EXPECT_GT(node.status(client.id()).evictions, 40u);
  const auto removed = node.ask(client.id(), RemoveRequest{{sim_key(0), sim_key(1)}});
  EXPECT_EQ(std::get<RemoveReply>(removed).removed, 1u) << "page 0 is there, page 1 is not";
}

// Of each client's touches a policy hears its share at once, and of the others at later puts.
TEST(MemoryNode, TouchesThatAPolicyDoesNotHearOfAtOnceWaitInTheirLog) {
  NodeOptions options = SimNode::of_slots(8);
  options.eviction = "lru";
  SimNode node(options);
  SimClient client(node);
  Toucher toucher(node);
  for (uint64_t number = 0; number < 8; ++number) {
    ASSERT_EQ(client.put(number).code, Code::kOk);
  }
  // Of two clients one has a half of the ring, and one more: all of page 1.
  for (uint32_t i = 0; i < kTouchRingSlots; ++i) {
    toucher.log().slots[i] = i <= kTouchRingSlots / 2 ? 1 : i < 3'000 ? 0 : 2;
  }
  toucher.log().written = kTouchRingSlots;
  toucher.write();
  for (uint64_t number = 8; number < 8 + 6; ++number) {
    ASSERT_EQ(client.put(number).code, Code::kOk);
  }
  // 0 has gone before its touches were heard of; those of 2 came in time.
  const auto removed = [&](std::vector<PageKey> keys) {
    return std::get<RemoveReply>(node.ask(client.id(), RemoveRequest{std::move(keys)})).removed;
  };
  EXPECT_EQ(removed({sim_key(0)}), 0u);
  EXPECT_EQ(removed({sim_key(1), sim_key(2)}), 2u);
}

NodeOptions lru_of_eight(uint64_t clients) {
  NodeOptions options = SimNode::of_slots(8);
  options.eviction = "lru";
  options.max_clients = clients;
  return options;
}

// However many clients have touched pages, a put brings in the touches of 64, and the next one
// those of others.
TEST(MemoryNode, TouchesOfManyClientsAreHeardOfInTurns) {
  SimNode node(lru_of_eight(100));
  SimClient client(node);
  for (uint64_t number = 0; number < 8; ++number) ASSERT_EQ(client.put(number).code, Code::kOk);
  std::vector<std::unique_ptr<Toucher>> touchers;
  for (int i = 0; i < 80; ++i) {
    Toucher& toucher = *touchers.emplace_back(std::make_unique<Toucher>(node));
    for (uint32_t slot = 0; slot < kTouchBlockSlots; ++slot) {
      toucher.log().slots[slot] = i < 64 ? 7 : slot % 2;
    }
    toucher.log().written = kTouchBlockSlots;
    toucher.write();
  }
  for (uint64_t number = 8; number < 10; ++number) ASSERT_EQ(client.put(number).code, Code::kOk);
  const auto removed = [&](uint64_t number) {
    return std::get<RemoveReply>(node.ask(client.id(), RemoveRequest{{sim_key(number)}})).removed;
  };
  EXPECT_EQ(removed(0), 0u) << "it went before its touches were heard of";
  EXPECT_EQ(removed(1), 1u);
  EXPECT_EQ(removed(2), 0u) << "in place of page 1";
}

// One that fetches is heard of at once beside many that do not.
TEST(MemoryNode, ClientsWithoutTouchesTakeNobodysTurn) {
  SimNode node(lru_of_eight(300));
  SimClient client(node);
  for (uint64_t number = 0; number < 8; ++number) ASSERT_EQ(client.put(number).code, Code::kOk);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(node.service().connected());
  Toucher toucher(node);
  for (uint32_t slot = 0; slot < kTouchBlockSlots; ++slot) toucher.log().slots[slot] = 0;
  toucher.log().written = kTouchBlockSlots;
  toucher.write();
  ASSERT_EQ(client.put(8).code, Code::kOk);
  const auto removed =
      std::get<RemoveReply>(node.ask(client.id(), RemoveRequest{{sim_key(0), sim_key(1)}}));
  EXPECT_EQ(removed.removed, 1u) << "page 0, and not page 1";
}

TEST(MemoryNode, OptionsOutOfRangeMakeNoNode) {
  sim::World world(1);
  sim::SimFabric fabric(world, {});
  const TempDir dir;
  NodeOptions options = SimNode::small_options();
  options.state = dir / "node.state";
  options.reuse_ms = 0;
  const auto refused = make_memory_node(options, fabric.runtime(), fabric);
  ASSERT_FALSE(refused.has_value());
  expect_says(refused.error().message, "node.reuse_ms");
  EXPECT_FALSE(std::filesystem::exists(options.state));
}

TEST(MemoryNode, PoolOfHeadersThatLieApartIsNotKept) {
  sim::World world(1);
  sim::SimFabric fabric(world, {});
  SimPoolKeeper keeper;
  const TempDir dir;
  NodeOptions options = SimNode::small_options();
  options.state = dir / "node.state";
  options.slot_layout = SlotLayout::kApart;
  const auto refused = make_memory_node(options, fabric.runtime(), fabric, &keeper);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  expect_says(refused.error().message, "cannot be kept");
  expect_says(refused.error().message, "let them lie together");
  EXPECT_TRUE(make_memory_node(options, fabric.runtime(), fabric).has_value());
}

TEST(MemoryNode, SaysWhereItsHeadersLie) {
  for (const SlotLayout layout : {SlotLayout::kTogether, SlotLayout::kApart}) {
    NodeOptions options = SimNode::small_options();
    options.slot_layout = layout;
    SimNode node(options);
    SimClient client(node);
    EXPECT_EQ(client.hello.slot_layout, static_cast<uint32_t>(layout));
    auto lane = std::get<OpenLaneReply>(node.ask(client.id(), OpenLaneRequest{}));
    EXPECT_EQ(lane.headers.has_value(), layout == SlotLayout::kApart);
    EXPECT_EQ(lane.pool.bytes + (lane.headers ? lane.headers->bytes : 0),
              client.hello.slots * (options.page_bytes + sizeof(PageHeader)));
  }
}

TEST(MemoryNode, SecondNodeOnOneStateFileIsRefused) {
  SimNode node;
  sim::SimFabric other(node.world(), {});
  const auto refused = make_memory_node(node.options(), other.runtime(), other);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kExists);
  expect_says(refused.error().message, "node.state");
}

}  // namespace
}  // namespace farpage
