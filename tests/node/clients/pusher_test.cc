#include "node/clients/pusher.h"

#include <gtest/gtest.h>

#include "integrity/crc32c.h"
#include "tests/node/sim_node.h"

namespace farpage {
namespace {

constexpr uint64_t kPageBytes = 1024;  // SimNode's
constexpr uint64_t kSlotBytes = kPageBytes + sizeof(PageHeader);
constexpr uint32_t kPlaces = 8;

// A client with a landing of its own, as it would say it and as it would not.
class LandingClient {
 public:
  explicit LandingClient(SimNode& node, uint64_t bytes = kPlaces * kSlotBytes)
      : node_(node), client_(node) {
    auto offered = node.client_fabric().offer_channel(ChannelPurpose::kStage).value();
    target_ = std::move(offered.target);
    landing_ = target_->allocate_writable(bytes).value();
    request.offer = std::move(offered.offer);
    request.landing = node.client_fabric().export_region(landing_).value();
  }

  ClientId id() const { return client_.id(); }
  SimClient& client() { return client_; }
  Target& target() { return *target_; }

  std::shared_ptr<std::optional<Reply>> ask_to_open() {
    auto answer = std::make_shared<std::optional<Reply>>();
    node_.service().handle(id(), std::move(request),
                           [answer](Reply reply) { answer->emplace(std::move(reply)); });
    return answer;
  }
  Reply open() {
    const auto answer = ask_to_open();
    node_.run_for(kMillisecond);
    EXPECT_TRUE(answer->has_value());
    if (const auto* opened = std::get_if<OpenPushReply>(&**answer)) lane_ = opened->lane;
    return std::move(**answer);
  }
  PushRequest push_of(std::vector<uint64_t> keys, uint32_t group_pages = 2) const {
    PushRequest push = {lane_, make_immediate(3, 1), group_pages, kSecond, {}};
    for (size_t i = 0; i < keys.size(); ++i) {
      push.pages.push_back({sim_key(keys[i]), static_cast<uint32_t>(i)});
    }
    return push;
  }
  Code ask(PushRequest push) {
    Reply reply = node_.ask(id(), std::move(push));
    const auto* refusal = std::get_if<Refusal>(&reply);
    return refusal == nullptr ? Code::kOk : refusal->code;
  }

  const PageHeader& header(uint32_t place) const {
    return *reinterpret_cast<const PageHeader*>(landing_.data() + place * kSlotBytes);
  }
  std::vector<uint32_t> immediates() {
    std::vector<uint32_t> immediates(64);
    immediates.resize(target_->poll(immediates));
    return immediates;
  }
  uint64_t lane() const { return lane_; }

  OpenPushRequest request;

 private:
  SimNode& node_;
  SimClient client_;
  std::unique_ptr<Target> target_;
  Region landing_;
  uint64_t lane_ = 0;
};

Code code_of(const Reply& reply) {
  const auto* refusal = std::get_if<Refusal>(&reply);
  return refusal == nullptr ? Code::kOk : refusal->code;
}

class Pushing : public ::testing::Test {
 protected:
  void put(uint64_t number, uint32_t bytes = kPageBytes) {
    const CommitPage page = writer_.stage(number, 0, bytes);
    const auto answer = writer_.commit(writer_.send_and_arrive(bytes), {page});
    node_.run_for(kMillisecond);
    ASSERT_EQ(answer->results.at(0).code, Code::kOk);
  }

  SimNode node_;
  SimClient writer_{node_};
};

TEST_F(Pushing, PagesLieInTheirPlacesAsInTheirSlots) {
  put(1);
  put(2, 100);
  LandingClient client(node_);
  ASSERT_EQ(code_of(client.open()), Code::kOk);
  PushRequest push = client.push_of({1, 9, 2, 8, 7});
  push.pages[2].place = 7;
  Reply reply = node_.ask(client.id(), std::move(push));
  EXPECT_EQ(std::get<PushReply>(reply).codes,
            (std::vector{Code::kOk, Code::kNotFound, Code::kOk, Code::kNotFound, Code::kNotFound}));
  node_.run_for(kMillisecond);
  EXPECT_EQ(client.immediates(),
            (std::vector{make_immediate(3, 1), make_immediate(4, 1), make_immediate(5, 1)}))
      << "one a group, also where there is nothing";
  EXPECT_EQ(client.header(0).key, sim_key(1));
  EXPECT_EQ(client.header(7).key, sim_key(2));
  EXPECT_EQ(client.header(7).payload_bytes, 100u);
  EXPECT_EQ(client.header(1).magic, 0u);
}

// More than have a turn at one time.
TEST_F(Pushing, EveryLaneOfManyHasItsPages) {
  put(1);
  put(2);
  std::vector<std::unique_ptr<LandingClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<LandingClient>(node_));
    ASSERT_EQ(code_of(clients.back()->open()), Code::kOk);
  }
  for (const auto& client : clients) ASSERT_EQ(client->ask(client->push_of({1, 2})), Code::kOk);
  node_.run_for(kMillisecond);
  for (const auto& client : clients) {
    EXPECT_EQ(client->immediates(), std::vector{make_immediate(3, 1)});
    EXPECT_EQ(client->header(0).key, sim_key(1));
    EXPECT_EQ(client->header(1).key, sim_key(2));
  }
}

// A landing's places are slots of one piece, wherever the node keeps its headers.
TEST(PushingApart, PagesLieInTheirPlacesInOnePiece) {
  NodeOptions options = SimNode::small_options();
  options.slot_layout = SlotLayout::kApart;
  SimNode node(options);
  SimClient writer(node);
  for (const uint64_t number : {1, 2}) {
    const CommitPage page = writer.stage(number, 0, kPageBytes);
    (void)writer.commit(writer.send_and_arrive(kPageBytes), {page});
    node.run_for(kMillisecond);
  }
  LandingClient client(node);
  ASSERT_EQ(code_of(client.open()), Code::kOk);
  EXPECT_EQ(client.ask(client.push_of({2, 1})), Code::kOk);
  node.run_for(kMillisecond);
  for (const auto& [place, number] : {std::pair<uint32_t, uint64_t>{0, 2}, {1, 1}}) {
    const PageHeader& header = client.header(place);
    EXPECT_EQ(header.key, sim_key(number));
    EXPECT_EQ(header.payload_bytes, kPageBytes);
    EXPECT_EQ(crc32c(0, reinterpret_cast<const std::byte*>(&header + 1), kPageBytes),
              header.payload_crc);
  }
}

TEST_F(Pushing, WhatThePatienceLeavesNoTimeForSendsItsImmediatesAlone) {
  put(1);
  LandingClient client(node_);
  ASSERT_EQ(code_of(client.open()), Code::kOk);
  PushRequest push = client.push_of({1, 1, 1});
  push.patience_ns = 0;
  EXPECT_EQ(client.ask(std::move(push)), Code::kOk);
  node_.run_for(kMillisecond);
  EXPECT_EQ(client.immediates().size(), 2u);
  EXPECT_EQ(client.header(0).magic, 0u);
}

// The node's answer about its pushes, page by page.
TEST_F(Pushing, CountsWhatItWritesAndWhatItLeavesOut) {
  const auto counts = [&] { return node_.status(writer_.id()).pushes; };
  put(1);
  put(2, 100);
  LandingClient client(node_);
  EXPECT_EQ(counts().lanes, 0u);
  ASSERT_EQ(code_of(client.open()), Code::kOk);
  EXPECT_EQ(counts().lanes, 1u);

  EXPECT_EQ(client.ask(client.push_of({1, 9, 2, 8, 7})), Code::kOk);
  EXPECT_EQ(counts().missed, 3u);
  EXPECT_EQ(counts().pages, 0u) << "nothing has gone out yet";
  node_.run_for(kMillisecond);
  EXPECT_EQ(counts().pages, 2u);
  EXPECT_EQ(counts().bytes, kPageBytes + 100);
  EXPECT_EQ(counts().late, 0u);

  PushRequest push = client.push_of({1, 9, 2, 1});
  push.patience_ns = 0;
  EXPECT_EQ(client.ask(std::move(push)), Code::kOk);
  node_.run_for(kMillisecond);
  EXPECT_EQ(counts().late, 3u);
  EXPECT_EQ(counts().pages, 2u);
  EXPECT_EQ(counts().missed, 4u);

  EXPECT_EQ(counts().refused, 0u);
  EXPECT_EQ(client.ask(client.push_of({})), Code::kInvalid);
  push = client.push_of({1});
  push.lane = client.lane() + 1;
  EXPECT_EQ(client.ask(std::move(push)), Code::kNotFound);
  EXPECT_EQ(counts().refused, 2u);
  for (const bool bad_at_once : {true, false}) {
    LandingClient other(node_);
    if (bad_at_once) other.request.landing.bytes = 1;
    if (!bad_at_once) other.request.offer.opaque = "nothing";
    EXPECT_NE(code_of(other.open()), Code::kOk);
    EXPECT_EQ(counts().refused, bad_at_once ? 3u : 4u);
  }
}

TEST_F(Pushing, CountsNoPageOfWhichItDoesNotKnowThatItCame) {
  put(1);
  LandingClient client(node_);
  ASSERT_EQ(code_of(client.open()), Code::kOk);
  client.target().close();
  EXPECT_EQ(client.ask(client.push_of({1})), Code::kOk);
  node_.run_for(kMillisecond);
  const PushCounts counts = node_.status(writer_.id()).pushes;
  EXPECT_EQ(counts.pages, 0u);
  EXPECT_EQ(counts.bytes, 0u);
  EXPECT_EQ(counts.lanes, 0u) << "the write failed, and with it the lane";
}

TEST_F(Pushing, RefusesARequestThatIsWrongAndWritesNothingOfIt) {
  put(1);
  LandingClient client(node_);
  ASSERT_EQ(code_of(client.open()), Code::kOk);
  EXPECT_EQ(client.ask(client.push_of({})), Code::kInvalid);
  EXPECT_EQ(client.ask(client.push_of({1}, 0)), Code::kInvalid);
  PushRequest push = client.push_of({1, 1});
  push.pages[1].place = 0;
  EXPECT_EQ(client.ask(std::move(push)), Code::kInvalid) << "a place twice";
  for (const uint32_t place : {kPlaces, UINT32_MAX}) {
    push = client.push_of({1, 1});
    push.pages[1].place = place;
    EXPECT_EQ(client.ask(std::move(push)), Code::kInvalid) << place;
  }
  push = client.push_of({1});
  push.lane = client.lane() + 1;
  EXPECT_EQ(client.ask(std::move(push)), Code::kNotFound);
  node_.run_for(kMillisecond);
  EXPECT_EQ(client.immediates().size(), 0u);
  EXPECT_EQ(client.header(0).magic, 0u);
}

TEST_F(Pushing, RefusesMoreThanItKeepsWaiting) {
  put(1);
  LandingClient client(node_, uint64_t{kMaxPushPages} * kSlotBytes);
  ASSERT_EQ(code_of(client.open()), Code::kOk);
  const std::vector<uint64_t> keys(kMaxPushPages, 1);
  EXPECT_EQ(client.ask(client.push_of(keys, 1)), Code::kInvalid) << "too many groups";
  EXPECT_EQ(client.ask(client.push_of(keys, 64)), Code::kOk);
  EXPECT_EQ(client.ask(client.push_of(keys, 64)), Code::kOk);
  EXPECT_EQ(client.ask(client.push_of({1}, 1)), Code::kExhausted);
  node_.run_for(100 * kMillisecond);
  EXPECT_EQ(client.ask(client.push_of({1}, 1)), Code::kOk);
}

TEST_F(Pushing, NobodyPushesToAnothersLane) {
  put(1);
  LandingClient owner(node_);
  ASSERT_EQ(code_of(owner.open()), Code::kOk);
  LandingClient thief(node_);
  EXPECT_EQ(thief.ask(owner.push_of({1})), Code::kNotFound);
  ASSERT_EQ(code_of(thief.open()), Code::kOk);
  EXPECT_EQ(thief.ask(owner.push_of({1})), Code::kNotFound);
}

TEST_F(Pushing, RefusesALandingThatIsNone) {
  const auto refused = [&](const std::function<void(OpenPushRequest&)>& spoil) {
    LandingClient client(node_);
    spoil(client.request);
    return code_of(client.open());
  };
  EXPECT_EQ(refused([](auto& request) { request.landing.bytes = kSlotBytes - 1; }), Code::kInvalid);
  EXPECT_EQ(refused([](auto& request) { request.landing.bytes = UINT64_MAX; }), Code::kInvalid);
  EXPECT_NE(refused([](auto& request) { request.landing.bytes += kSlotBytes; }), Code::kOk);
  EXPECT_EQ(refused([](auto& request) { request.landing.access = Access::kRemoteRead; }),
            Code::kProtocol);
  EXPECT_EQ(refused([](auto& request) { request.offer.purpose = ChannelPurpose::kRead; }),
            Code::kProtocol);
  EXPECT_NE(refused([](auto& request) { request.landing.opaque = "nothing"; }), Code::kOk);
  EXPECT_NE(refused([](auto& request) { request.offer.opaque = "nothing"; }), Code::kOk);
  put(1);
  LandingClient client(node_);
  ASSERT_EQ(code_of(client.open()), Code::kOk) << "the others have cost it nothing";
  EXPECT_EQ(client.ask(client.push_of({1})), Code::kOk);
}

// I6: the region is that of another client's channel, which the device finds out.
TEST_F(Pushing, ALandingOfAnotherChannelIsWrittenByNobody) {
  put(1);
  LandingClient victim(node_);
  ASSERT_EQ(code_of(victim.open()), Code::kOk);
  LandingClient thief(node_);
  LandingClient spare(node_);
  thief.request.landing = std::move(spare.request.landing);
  ASSERT_EQ(code_of(thief.open()), Code::kOk);
  EXPECT_EQ(thief.ask(thief.push_of({1})), Code::kOk);
  node_.run_for(kMillisecond);
  EXPECT_EQ(spare.header(0).magic, 0u);
  EXPECT_EQ(thief.ask(thief.push_of({1})), Code::kNotFound) << "the lane has ended";
  EXPECT_EQ(victim.ask(victim.push_of({1})), Code::kOk);
  node_.run_for(kMillisecond);
  EXPECT_EQ(victim.header(0).key, sim_key(1));
}

TEST_F(Pushing, ALaneWhoseClientIsSilentEndsAlone) {
  put(1);
  LandingClient other(node_);
  ASSERT_EQ(code_of(other.open()), Code::kOk);
  LandingClient client(node_);
  ASSERT_EQ(code_of(client.open()), Code::kOk);
  client.target().close();
  EXPECT_EQ(client.ask(client.push_of({1})), Code::kOk);
  node_.run_for(kMillisecond);
  EXPECT_EQ(client.ask(client.push_of({1})), Code::kNotFound);
  EXPECT_EQ(client.header(0).magic, 0u);
  EXPECT_EQ(other.ask(other.push_of({1})), Code::kOk);
  node_.run_for(kMillisecond);
  EXPECT_EQ(other.header(0).key, sim_key(1));
}

TEST(PushingLimits, OneLaneIsOpenedAtATimeAndNoMoreThanTheLimit) {
  NodeOptions options = SimNode::small_options();
  options.max_lanes = 2;
  SimNode node(options);
  LandingClient client(node);
  std::vector<std::unique_ptr<LandingClient>> others;  // whose landings it offers
  for (int i = 0; i < 4; ++i) others.push_back(std::make_unique<LandingClient>(node));
  size_t offered = 0;
  const auto open_another = [&](uint64_t replaces) {
    client.request = std::move(others[offered++]->request);
    client.request.replaces = replaces;
    return client.ask_to_open();
  };
  const auto first = client.ask_to_open();
  EXPECT_EQ(code_of(open_another(0)->value()), Code::kExhausted) << "the first is not open yet";
  node.run_for(kMillisecond);
  const uint64_t lane = std::get<OpenPushReply>(first->value()).lane;
  const auto second = open_another(0);
  node.run_for(kMillisecond);
  EXPECT_EQ(code_of(second->value()), Code::kOk);
  EXPECT_EQ(code_of(open_another(0)->value()), Code::kExhausted) << "two are open";
  const auto third = open_another(lane);
  node.run_for(kMillisecond);
  EXPECT_EQ(code_of(third->value()), Code::kOk);
}

TEST_F(Pushing, AClientThatGoesWhileItsLaneIsOpenedIsToldNothing) {
  LandingClient client(node_);
  const auto answer = client.ask_to_open();
  node_.service().disconnected(client.id());
  node_.run_for(kMillisecond);
  EXPECT_FALSE(answer->has_value());
  LandingClient other(node_);
  EXPECT_EQ(code_of(other.open()), Code::kOk);
}

TEST_F(Pushing, AClientThatGoesEndsItsLanes) {
  put(1);
  {
    LandingClient client(node_);
    ASSERT_EQ(code_of(client.open()), Code::kOk);
    EXPECT_EQ(client.ask(client.push_of({1})), Code::kOk);
    node_.service().disconnected(client.id());
    node_.run_for(kMillisecond);
    EXPECT_EQ(client.ask_to_open()->has_value(), false);
  }
  node_.run_for(kMillisecond);
}

}  // namespace
}  // namespace farpage
