#include "sim/sim_register.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sim/network/sim_fabric.h"

namespace farpage {
namespace {

constexpr size_t kHosts = 3;
constexpr size_t kRegister = kHosts;

// A host's view of one call. Of one that failed nothing is known but that it was made.
struct Call {
  enum Kind : uint8_t { kRead, kReplace } kind;
  uint64_t called_ns;
  uint64_t answered_ns = kNever;
  uint64_t number = 0;  // that was read, or begun
  uint64_t mark = 0;    // of the epoch: who began it writes a mark that is nobody else's
  bool ok = false;
};

class SimRegisterTest : public testing::Test {
 protected:
  static Epoch first() {
    Epoch epoch;
    epoch.number = 1;
    epoch.replicas = 2;
    epoch.page_bytes = 512;
    for (NodeId node = 1; node <= kHosts; ++node) epoch.members.push_back({node, 0});
    epoch.give_slots();
    return epoch;
  }

  explicit SimRegisterTest(const SimRegisterOptions& options = {.detect_ns = 0}, uint64_t seed = 1)
      : world_(seed),
        wire_{world_, 10 * kMicrosecond, 500 * kMicrosecond},
        epochs_(wire_, kRegister, first(), options) {
    for (size_t host = 0; host < kHosts; ++host) {
      fabrics_.push_back(std::make_unique<sim::SimFabric>(world_, sim::SimOptions{}));
      hosts_.push_back(epochs_.access(host, fabrics_.back()->runtime()));
    }
  }

  RegisteredEpoch read(size_t host) {
    std::optional<Result<RegisteredEpoch>> answer;
    hosts_[host]->read([&](Result<RegisteredEpoch> result) { answer = std::move(result); });
    EXPECT_TRUE(world_.wait_until(world_.now_ns() + kSecond, [&] { return answer.has_value(); }));
    return answer.value().value();
  }
  Code replace(size_t host, uint64_t current, const Epoch& next) {
    std::optional<Code> answer;
    hosts_[host]->replace(current, next, [&](Result<void> result) {
      answer = result ? Code::kOk : result.error().code;
    });
    EXPECT_TRUE(world_.wait_until(world_.now_ns() + kSecond, [&] { return answer.has_value(); }));
    return *answer;
  }
  Epoch successor(uint64_t mark) {
    Epoch next = first();
    next.number = epochs_.current().epoch.number + 1;
    next.seed = mark;
    return next;
  }

  sim::World world_;
  SimWire wire_;
  SimRegister epochs_;
  std::vector<std::unique_ptr<sim::SimFabric>> fabrics_;
  std::vector<std::unique_ptr<EpochRegister>> hosts_;
};

TEST_F(SimRegisterTest, OneReplaceOfTwoForTheSameEpochWins) {
  EXPECT_EQ(replace(0, 1, successor(7)), Code::kOk);
  Epoch second = first();
  second.number = 2;
  EXPECT_EQ(replace(1, 1, second), Code::kAborted);
  EXPECT_EQ(read(2).epoch.seed, 7u);
  EXPECT_TRUE(read(2).confirmed.empty());
}

TEST_F(SimRegisterTest, ConfirmationsAreOfOneEpoch) {
  std::vector<Code> answers;
  const auto note = [&](Result<void> result) {
    answers.push_back(result ? Code::kOk : result.error().code);
  };
  hosts_[0]->confirm(1, 1, note);
  hosts_[1]->confirm(2, 2, note);
  world_.run_until(world_.now_ns() + kSecond);
  EXPECT_THAT(answers, testing::UnorderedElementsAre(Code::kOk, Code::kAborted));
  EXPECT_THAT(read(0).confirmed, testing::ElementsAre(1));
  EXPECT_FALSE(read(0).all_confirmed());
}

TEST_F(SimRegisterTest, AHostThatIsPartedHearsOfTimeAlone) {
  wire_.parted.insert(SimWire::pair(0, kRegister));
  EXPECT_EQ(replace(0, 1, successor(7)), Code::kTimeout);
  EXPECT_EQ(read(1).epoch.number, 1u);
}

TEST_F(SimRegisterTest, WhatIsUnreadIsLostAndNothingElse) {
  epochs_.set_unread(0, true);
  std::optional<Code> answer;
  hosts_[0]->read([&](const Result<RegisteredEpoch>& result) {
    answer = result ? Code::kOk : result.error().code;
  });
  world_.run_until(world_.now_ns() + kSecond);
  EXPECT_EQ(answer, Code::kTimeout);
  EXPECT_EQ(replace(0, 1, successor(7)), Code::kOk);
  EXPECT_EQ(read(1).epoch.number, 2u);
  epochs_.set_unread(0, false);
  EXPECT_EQ(read(0).epoch.number, 2u);
}

// The start of a view's lease: not the answer's arrival, and not a read without an answer.
TEST_F(SimRegisterTest, KnowsWhenTheReadWasSentThatAHostHasAnAnswerTo) {
  EXPECT_EQ(epochs_.last_read_ns(0), 0u);
  world_.run_until(kSecond);
  const uint64_t sent_ns = world_.now_ns();
  read(0);
  EXPECT_GT(world_.now_ns(), sent_ns);
  EXPECT_EQ(epochs_.last_read_ns(0), sent_ns);
  epochs_.set_unread(0, true);
  hosts_[0]->read([](const Result<RegisteredEpoch>&) {});
  world_.run_until(3 * kSecond);
  EXPECT_EQ(epochs_.last_read_ns(0), sent_ns);
  EXPECT_EQ(epochs_.last_read_ns(1), 0u);
}

// The order that real time gives is all that may be relied on, and it must be there, whatever is
// late or lost: a read begun after an answer says no less than that answer, numbers mean the same
// to everybody, and no epoch begins twice.
TEST_F(SimRegisterTest, EveryHistoryIsLinearizable) {
  uint64_t ended_early = 0;
  uint64_t began = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    sim::World world(seed);
    SimWire wire{world, 10 * kMicrosecond, 3 * kMillisecond};
    SimRegister epochs(wire, kRegister, first(),
                       {.loss = 0.1, .timeout_ns = 4 * kMillisecond, .detect_ns = 0});
    std::vector<std::unique_ptr<sim::SimFabric>> fabrics;
    std::vector<std::unique_ptr<EpochRegister>> hosts;
    for (size_t host = 0; host < kHosts; ++host) {
      fabrics.push_back(std::make_unique<sim::SimFabric>(world, sim::SimOptions{}));
      hosts.push_back(epochs.access(host, fabrics.back()->runtime()));
    }
    std::vector<Call> calls(200);
    std::array<Epoch, kHosts> known{first(), first(), first()};
    for (size_t i = 0; i < calls.size(); ++i) {
      Call& call = calls[i];
      const size_t host = world.random_below(kHosts);
      call.called_ns = world.now_ns();
      if (world.chance(0.6)) {
        call.kind = Call::kRead;
        hosts[host]->read([&, host](Result<RegisteredEpoch> result) {
          call.answered_ns = world.now_ns();
          call.ok = result.has_value();
          if (!call.ok) return;
          call.number = result->epoch.number;
          call.mark = result->epoch.seed;
          known[host] = result->epoch;
        });
      } else {
        call.kind = Call::kReplace;
        Epoch next = known[host];
        call.number = ++next.number;
        call.mark = next.seed = 1000 + i;
        hosts[host]->replace(call.number - 1, next, [&](const Result<void>& result) {
          call.answered_ns = world.now_ns();
          call.ok = result.has_value();
        });
      }
      if (world.chance(0.05)) {
        wire.parted.insert(SimWire::pair(host, kRegister));
      } else if (world.chance(0.1)) {
        wire.parted.clear();
      }
      world.run_until(world.now_ns() + world.random_below(2 * kMillisecond));
    }
    world.run_until(world.now_ns() + kSecond);

    std::map<uint64_t, uint64_t> marks;
    for (const Call& call : calls) {
      ASSERT_NE(call.answered_ns, kNever) << "a call that never ended";
      if (!call.ok) {
        ++ended_early;
        continue;
      }
      EXPECT_EQ(marks.emplace(call.number, call.mark).first->second, call.mark);
      for (const Call& before : calls) {
        if (!before.ok || before.answered_ns >= call.called_ns) continue;
        EXPECT_GE(call.number, before.number);
        if (call.kind == Call::kReplace) {
          ++began;
          EXPECT_GT(call.number, before.number);
        }
      }
    }
  }
  EXPECT_GT(ended_early, 1000u);
  EXPECT_GT(began, 1000u);
}

class SimDetectionTest : public SimRegisterTest {
 protected:
  static constexpr uint64_t kDetectNs = 40 * kMillisecond;
  SimDetectionTest() : SimRegisterTest({.detect_ns = kDetectNs}) {
    for (size_t host = 0; host < kHosts; ++host) {
      epochs_.hear_from(host + 1, host, fabrics_[host]->runtime(), lives_[host]);
    }
  }
  std::vector<std::shared_ptr<bool>> lives_{std::make_shared<bool>(), std::make_shared<bool>(),
                                            std::make_shared<bool>()};
};

TEST_F(SimDetectionTest, WhoeverIsHeardOfStays) {
  world_.run_until(world_.now_ns() + kSecond);
  EXPECT_EQ(epochs_.current().epoch.number, 1u);
}

TEST_F(SimDetectionTest, APausedNodeIsLeftOutAndTheReplicasFollow) {
  fabrics_[1]->pause();
  world_.run_until(world_.now_ns() + 2 * kDetectNs);
  EXPECT_EQ(epochs_.current().epoch.number, 2u);
  EXPECT_EQ(epochs_.current().epoch.find(2), nullptr);
  lives_[0].reset();
  world_.run_until(world_.now_ns() + 2 * kDetectNs);
  EXPECT_EQ(epochs_.current().epoch.replicas, 1u);
  fabrics_[1]->resume();
  world_.run_until(world_.now_ns() + 2 * kDetectNs);
  EXPECT_EQ(epochs_.current().epoch.members.size(), 1u) << "it comes back by its own replace only";
}

TEST_F(SimDetectionTest, APartedNodeIsLeftOutAndTheLastOneStays) {
  for (size_t host = 0; host < kHosts; ++host) wire_.parted.insert(SimWire::pair(host, kRegister));
  world_.run_until(world_.now_ns() + kSecond);
  EXPECT_FALSE(epochs_.current().epoch.members.empty());
}

}  // namespace
}  // namespace farpage
