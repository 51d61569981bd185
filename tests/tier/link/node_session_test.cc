#include "tier/link/node_session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "sim/network/sim_fabric.h"
#include "sim/network/world.h"
#include "tests/tier/staging/offered_stagings.h"
#include "tier/link/read_path.h"

namespace farpage {
namespace {

constexpr NodeId kPeer = 7;
constexpr NodeId kSelf = 8;
constexpr uint64_t kIncarnation = 11;

// A node that answers as it is told, at once.
class AnsweringNode final : public ControlDialer {
 public:
  explicit AnsweringNode(sim::SimFabric& fabric)
      : runtime_(fabric.runtime()), fabric_(fabric), stagings_(fabric) {}

  void dial(DialCallback done) override {
    runtime_.after(0, [this, done = std::move(done)] { done(std::make_shared<Link>(*this)); });
  }

  HelloRequest heard;
  NodeId node = kPeer;
  EpochTag membership = {1, 99};
  uint64_t page_bytes = 512;
  uint64_t epoch = 1;
  uint64_t incarnation = kIncarnation;
  uint32_t slot_layout = 0;
  bool offers_headers = false;
  std::optional<Refusal> refusal;

 private:
  struct Link final : ControlLink {
    explicit Link(AnsweringNode& of) : node(of) {}
    void call(Request request, ReplyCallback done) override {
      // The link may go before it answers.
      node.runtime_.after(0, [&at = node, request = std::make_shared<Request>(std::move(request)),
                              done = std::move(done)] { done(at.answer(*request)); });
    }
    void close() override {}
    const Peer& peer() const override { return nowhere; }
    AnsweringNode& node;
    const Peer nowhere;
  };

  Reply answer(const Request& request) {
    if (const auto* said = std::get_if<HelloRequest>(&request)) {
      heard = *said;
      if (refusal) return *refusal;
      HelloReply hello;
      hello.epoch = epoch;
      hello.incarnation = incarnation;
      hello.reuse_ns = kMillisecond;
      hello.lease_ns = kSecond;
      hello.page_bytes = page_bytes;
      hello.slots = 16;
      hello.buckets = 4;
      hello.node = node;
      hello.membership = membership;
      hello.slot_layout = slot_layout;
      stagings_.offer(hello);
      return hello;
    }
    if (std::holds_alternative<OpenLaneRequest>(request)) return offer_lane();
    return RenewReply{incarnation};
  }

  // Each region is large enough for all that could lie there.
  Reply offer_lane() {
    OpenLaneReply reply;
    reply.lane = 1;
    auto offered = fabric_.offer_channel(ChannelPurpose::kRead).value();
    targets_.push_back(std::move(offered.target));
    reply.read_offer = std::move(offered.offer);
    const auto region = [this] {
      regions_.push_back(fabric_.allocate_readable(64 * kKiB).value());
      return fabric_.export_region(regions_.back()).value();
    };
    reply.pool = region();
    reply.index = region();
    if (offers_headers) reply.headers = region();
    return reply;
  }

  Runtime& runtime_;
  sim::SimFabric& fabric_;
  std::vector<Region> regions_;
  std::vector<std::unique_ptr<Target>> targets_;
  OfferedStagings stagings_;
};

class NodeSessionTest : public testing::Test {
 protected:
  Result<void> connect(HelloExpectations terms) {
    ClientOptions options;
    options.staging_bytes = 0;
    link_ = std::make_shared<NodeSession>(options, fabric_.runtime(), fabric_, gate_, node_,
                                          std::move(terms));
    return link_->connect();
  }
  static HelloExpectations of_a_list() {
    HelloExpectations terms;
    terms.peer = kPeer;
    terms.page_bytes = 512;
    terms.epoch = [] { return EpochTag{1, 99}; };
    return terms;
  }
  std::string refusal_of(HelloExpectations terms) {
    const auto connected = connect(std::move(terms));
    EXPECT_FALSE(connected);
    EXPECT_TRUE(link_->refused());
    return connected ? "" : connected.error().message;
  }
  ~NodeSessionTest() override {
    if (link_ != nullptr) link_->stop();
    world_.run_until(world_.now_ns() + 10 * kSecond);
  }

  sim::World world_{1};
  sim::SimFabric fabric_{world_, {}};
  const std::shared_ptr<FabricGate> gate_ = std::make_shared<FabricGate>(fabric_);
  AnsweringNode node_{fabric_};
  std::shared_ptr<NodeSession> link_;
};

// A node's thread ends links to members that have left.
TEST_F(NodeSessionTest, StopWaitsForNoConnectThatIsUnderWay) {
  ASSERT_TRUE(connect(of_a_list()));
  std::atomic<bool> inside = false;
  std::atomic<bool> go_on = false;
  std::thread connecting([&, gate = link_->gate()] {
    (void)gate->pass([&](Fabric&) -> Result<void> {
      inside = true;
      inside.notify_all();
      go_on.wait(false);
      return {};
    });
  });
  inside.wait(false);
  auto stopped = std::async(std::launch::async, [&] { link_->stop(); });
  EXPECT_EQ(stopped.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(link_->view(), nullptr);
  go_on = true;
  go_on.notify_all();
  connecting.join();
}

TEST_F(NodeSessionTest, HelloSaysWhichMemberItIs) {
  HelloExpectations terms = of_a_list();
  terms.self = kSelf;
  terms.incarnation = 5;
  ASSERT_TRUE(connect(terms));
  EXPECT_EQ(node_.heard.node, kSelf);
  EXPECT_EQ(node_.heard.incarnation, 5u);
  EXPECT_EQ(node_.heard.epoch, (EpochTag{1, 99}));
  EXPECT_EQ(link_->view()->staging, nullptr);
}

TEST_F(NodeSessionTest, ClientOfANodeThatServesAloneSaysNothingOfFleets) {
  node_.node = 0;
  node_.membership = {};
  ASSERT_TRUE(connect({}));
  EXPECT_EQ(node_.heard.node, 0u);
  EXPECT_EQ(node_.heard.epoch, EpochTag{});
}

TEST_F(NodeSessionTest, AnotherMemberThanTheOneNamedIsRefused) {
  node_.node = kSelf;
  EXPECT_NE(refusal_of(of_a_list()).find("another member answers"), std::string::npos);
}

TEST_F(NodeSessionTest, NodeThatServesAloneIsNoMember) {
  node_.node = 0;
  EXPECT_NE(refusal_of(of_a_list()).find("serves alone"), std::string::npos);
}

TEST_F(NodeSessionTest, MemberIsNotTakenForANodeThatServesAlone) {
  EXPECT_NE(refusal_of({}).find("one of several"), std::string::npos);
}

TEST_F(NodeSessionTest, MemberWithAnotherPageLengthIsRefused) {
  node_.page_bytes = 1024;
  EXPECT_NE(refusal_of(of_a_list()).find("node.page_bytes"), std::string::npos);
}

TEST_F(NodeSessionTest, LayoutOfSlotsThatNobodyKnowsIsRefused) {
  for (const uint32_t layout : {2u, 256u, 257u, UINT32_MAX}) {
    node_.slot_layout = layout;
    EXPECT_NE(refusal_of(of_a_list()).find("same version of farpage"), std::string::npos) << layout;
    link_->stop();
  }
}

// What the hello says about headers and what the lane offers have to agree.
TEST_F(NodeSessionTest, LaneThatContradictsTheHelloIsRefused) {
  for (const bool says_apart : {false, true}) {
    for (const bool offers : {false, true}) {
      node_.slot_layout = says_apart ? 1 : 0;
      node_.offers_headers = offers;
      HelloExpectations terms = of_a_list();
      terms.self = kSelf;
      ASSERT_TRUE(connect(terms));
      ReadPath path(link_);
      world_.wait_until(world_.now_ns() + kSecond,
                        [&] { return path.advance(world_.now_ns()) || path.error().has_value(); });
      EXPECT_EQ(path.is_open(), says_apart == offers) << says_apart << offers;
      EXPECT_EQ(path.error().has_value(), says_apart != offers);
      if (says_apart && !offers) {
        EXPECT_NE(path.error()->message.find("offers no region"), std::string::npos);
      }
      if (!says_apart && offers) {
        EXPECT_NE(path.error()->message.find("offers a region"), std::string::npos);
      }
      path.finish();
      link_->stop();
    }
  }
}

TEST_F(NodeSessionTest, MemberOfAnotherListIsRefused) {
  node_.membership.identity = 100;
  EXPECT_NE(refusal_of(of_a_list()).find("another list of nodes"), std::string::npos);
}

TEST_F(NodeSessionTest, MemberThatRefusesTheListIsNotAskedForEver) {
  node_.refusal = Refusal{Code::kOtherEpoch, "another list here", {1, 100}};
  EXPECT_EQ(refusal_of(of_a_list()), "another list here");
}

// With a register either may be ahead for a while; the incarnation says who it is.
TEST_F(NodeSessionTest, MemberInAnotherEpochOfARegisterIsTaken) {
  HelloExpectations terms = of_a_list();
  terms.fixed = false;
  node_.membership = {2, 100};
  EXPECT_TRUE(connect(terms));
}

// It has just started: nobody has to be told, and it is asked again.
TEST_F(NodeSessionTest, MemberThatHasNotJoinedYetIsAskedAgain) {
  HelloExpectations terms = of_a_list();
  terms.fixed = false;
  terms.self = kSelf;
  node_.epoch = 0;
  testing::internal::CaptureStderr();
  const auto connected = connect(terms);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().message, "the node is a member of no epoch yet");
  EXPECT_FALSE(link_->refused());
  node_.epoch = 2;
  world_.run_until(world_.now_ns() + 10 * kSecond);
  EXPECT_NE(link_->view(), nullptr);
}

// A node whose state file was lost begins anew: with an epoch that this client knows, or an earlier
// one.
class NodeThatBeginsAnew : public NodeSessionTest {
 protected:
  void SetUp() override {
    node_.node = 0;
    node_.membership = {};
    node_.epoch = 5;
    ASSERT_TRUE(connect({}));
    testing::internal::CaptureStderr();
  }
  // Renewals notice, and it is dialled again.
  void begin_anew(uint64_t epoch, uint64_t incarnation) {
    node_.epoch = epoch;
    node_.incarnation = incarnation;
    run_for(3 * kSecond);
  }
  void run_for(uint64_t duration_ns) { world_.run_until(world_.now_ns() + duration_ns); }
  bool serves() const { return link_->view()->connected; }
  size_t times_told() {
    const std::string told = testing::internal::GetCapturedStderr();
    testing::internal::CaptureStderr();
    size_t times = 0;
    for (size_t at = told.find("gone back"); at != std::string::npos; ++times) {
      at = told.find("gone back", at + 1);
    }
    return times;
  }
  ~NodeThatBeginsAnew() override { (void)testing::internal::GetCapturedStderr(); }
};

TEST_F(NodeThatBeginsAnew, IsToldWhichRunThisClientKnew) {
  EXPECT_EQ(node_.heard.known_epoch, 0u);
  begin_anew(1, 12);
  EXPECT_EQ(node_.heard.known_epoch, 5u);
  EXPECT_EQ(node_.heard.known_incarnation, kIncarnation);
}

TEST_F(NodeThatBeginsAnew, IsRefusedWithTheCommandThatMendsIt) {
  for (const uint64_t epoch : {5u, 4u, 1u}) {
    begin_anew(epoch, 12);
    EXPECT_FALSE(serves());
    ASSERT_TRUE(link_->error()) << epoch;
    EXPECT_NE(link_->error()->message.find("--set node.least_epoch=6"), std::string::npos)
        << link_->error()->message;
  }
  begin_anew(6, 13);
  EXPECT_TRUE(serves());
  EXPECT_EQ(link_->view()->epoch, 6u);
}

TEST_F(NodeThatBeginsAnew, IsToldOfAgainAndAgain) {
  begin_anew(1, 12);
  EXPECT_EQ(times_told(), 1u);
  run_for(20 * kSecond);
  EXPECT_EQ(times_told(), 0u);
  run_for(20 * kSecond);
  EXPECT_EQ(times_told(), 1u);
  run_for(10 * 60 * kSecond);
  EXPECT_GE(times_told(), 15u);
}

TEST_F(NodeThatBeginsAnew, MayBeTheSameRunAgain) {
  begin_anew(5, 12);
  ASSERT_FALSE(serves());
  begin_anew(5, kIncarnation);
  EXPECT_TRUE(serves());
}

// The register's epochs are not the node's own, and its members' runs are known by it.
TEST_F(NodeSessionTest, MemberOfARegisterIsToldOfNoRun) {
  HelloExpectations terms = of_a_list();
  terms.fixed = false;
  node_.epoch = 5;
  ASSERT_TRUE(connect(terms));
  node_.epoch = 4;
  node_.incarnation = 12;
  world_.run_until(world_.now_ns() + 3 * kSecond);
  EXPECT_EQ(node_.heard.known_epoch, 0u);
  EXPECT_EQ(link_->view()->incarnation, 12u);
}

}  // namespace
}  // namespace farpage
