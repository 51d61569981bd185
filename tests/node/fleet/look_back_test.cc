#include "node/fleet/look_back.h"

#include <gtest/gtest.h>

#include <optional>

#include "sim/network/world.h"
#include "tier/link/membership.h"

namespace farpage {
namespace {

constexpr NodeId kNode = 7;
constexpr uint64_t kIncarnation = 11;

// A node that is dialled as a test says.
class DialledNode final : public ControlDialer {
 public:
  explicit DialledNode(sim::World& world) : world_(world) {}

  void dial(DialCallback done) override {
    ++dials;
    world_.after(kMillisecond, [this, done = std::move(done)] {
      if (refusal) return done(tl::unexpected(*refusal));
      done(std::make_shared<Link>(*this));
    });
  }
  int dials = 0;
  std::optional<Error> refusal;
  StatusReply status;
  std::optional<Refusal> status_refusal;
  bool answers = true;

 private:
  Reply reply() const { return status_refusal ? Reply(*status_refusal) : Reply(status); }

  struct Link final : ControlLink {
    explicit Link(DialledNode& of) : node(of) {}
    void call(Request request, ReplyCallback done) override {
      EXPECT_TRUE(std::holds_alternative<StatusRequest>(request));
      if (!node.answers) return;
      node.world_.after(kMillisecond, [&at = node, done = std::move(done)] { done(at.reply()); });
    }
    void close() override {}
    const Peer& peer() const override { return nowhere; }
    DialledNode& node;
    const Peer nowhere;
  };

  sim::World& world_;
};

// Of a register that knows where that node is, and no other.
struct OneAddress final : Membership {
  bool has_address(NodeId node) const override { return node == kNode; }
  uint64_t meet_ns() const override { return kSecond; }
  void cannot_join(const std::string&) override {}
  void tell_away(uint64_t, const std::vector<NodeId>&) override {}
};

class LookBackTest : public testing::Test {
 protected:
  LookBackTest() {
    fleet_.dialer = [this](NodeId) -> ControlDialer& { return node_; };
    fleet_.membership = &membership_;
    node_.status.incarnation = kIncarnation;
    node_.status.backend = "tcp";
  }
  // Asked twice, as by one whose first hello comes before anybody has looked.
  Refusal answer() {
    (void)look_back_.answer(kNode, kIncarnation);
    world_.run_until(world_.now_ns() + 3 * kSecond);
    return look_back_.answer(kNode, kIncarnation);
  }
  void expect_said(Code code, const std::string& part) {
    const Refusal said = answer();
    EXPECT_EQ(said.code, code) << said.message;
    EXPECT_NE(said.message.find(part), std::string::npos) << said.message;
  }

  sim::World world_{1};
  DialledNode node_{world_};
  OneAddress membership_;
  Fleet fleet_;
  int reads_ = 0;
  LookBack look_back_{world_, "tcp", fleet_, [this] { ++reads_; }};
};

TEST_F(LookBackTest, SaysThatItHasNotLookedYetUntilItHas) {
  EXPECT_EQ(look_back_.answer(kNode, kIncarnation).code, Code::kUnavailable);
  EXPECT_EQ(answer().code, Code::kOtherEpoch);
  EXPECT_EQ(node_.dials, 1);
}

TEST_F(LookBackTest, RunThatWasReachedIsNotDialledAgainAndTheNextOneIs) {
  (void)answer();
  (void)answer();
  EXPECT_EQ(node_.dials, 1);
  EXPECT_EQ(look_back_.answer(kNode, 12).code, Code::kUnavailable);
  EXPECT_EQ(node_.dials, 2);
}

TEST_F(LookBackTest, AnotherSecretIsWhatAPersonHasToMend) {
  node_.refusal = Error{Code::kDenied, "the node has another token"};
  expect_said(Code::kInvalid, "the node has another token");
}

TEST_F(LookBackTest, HostThatDoesNotAnswerMayYetDoSo) {
  node_.refusal = Error{Code::kUnavailable, "no route to host"};
  expect_said(Code::kUnavailable, "no route to host");
  node_.refusal.reset();
  (void)answer();
  EXPECT_EQ(answer().code, Code::kOtherEpoch);
}

TEST_F(LookBackTest, AnotherBackendIsNamedWithThisOne) {
  node_.status.backend = "shm";
  expect_said(Code::kInvalid, "'shm'");
  expect_said(Code::kInvalid, "'tcp'");
}

TEST_F(LookBackTest, AnotherRunAtTheAddressIsNotTheOneThatSaidHello) {
  node_.status.incarnation = 12;
  expect_said(Code::kUnavailable, "cluster.address");
}

TEST_F(LookBackTest, ProcessThatTakesTheConnectionAndSaysNothingIsNotReached) {
  node_.answers = false;
  expect_said(Code::kUnavailable, "is it stopped?");
}

TEST_F(LookBackTest, RefusalOfAStatusIsNotReached) {
  node_.status_refusal =
      Refusal{Code::kUnavailable, "this node was left out and is coming back", {}};
  expect_said(Code::kUnavailable, "is coming back");
}

TEST_F(LookBackTest, FloodOfHellosDialsNoMoreThanFourTimesASecond) {
  node_.refusal = Error{Code::kUnavailable, "no route to host"};
  for (int i = 0; i < 1'000; ++i) {
    (void)look_back_.answer(kNode, kIncarnation + i % 2);  // of two runs that claim one name
    world_.run_until(world_.now_ns() + kMillisecond);
  }
  EXPECT_LE(node_.dials, 5);
}

TEST_F(LookBackTest, NameThatNoProcessHasRegisteredIsNotDialled) {
  for (NodeId node = kNode + 1; node < kNode + 100; ++node) {
    EXPECT_EQ(look_back_.answer(node, kIncarnation).code, Code::kUnavailable);
  }
  EXPECT_EQ(node_.dials, 0);
  EXPECT_EQ(answer().code, Code::kOtherEpoch);
}

// The register tells of new epochs alone, and not of processes that begin.
TEST_F(LookBackTest, RegisterIsReadAgainForAnAddressThatIsUnknownOrWrong) {
  EXPECT_EQ(answer().code, Code::kOtherEpoch);
  EXPECT_EQ(reads_, 0);
  (void)look_back_.answer(kNode + 1, kIncarnation);
  EXPECT_EQ(reads_, 1);
  node_.status.incarnation = kIncarnation + 2;  // another run is where this one was
  for (int i = 0; i < 3; ++i) {
    (void)look_back_.answer(kNode, kIncarnation + 1);
    world_.run_until(world_.now_ns() + kSecond);
    EXPECT_EQ(reads_, 2) << "once for a run";
  }
  node_.status.backend = "shm";  // what a person has to mend is not in the register
  (void)look_back_.answer(kNode, kIncarnation + 2);
  world_.run_until(world_.now_ns() + kSecond);
  EXPECT_EQ(reads_, 2);
}

}  // namespace
}  // namespace farpage
