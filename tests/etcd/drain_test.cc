#include "etcd/drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/clock.h"
#include "base/units.h"
#include "etcd/json.h"
#include "tests/etcd/scripted_etcd.h"

namespace farpage::etcd {
namespace {

using testing::HasSubstr;

const Member kA = {node_id("a"), 10, false, 1};
const Member kB = {node_id("b"), 20, false, 2};
const Member kC = {node_id("c"), 30, false, 3};
const Member kD = {node_id("d"), 40, false, 4};

Member leaving(Member member) {
  member.leaving = true;
  return member;
}

// At revision 100 * number; all of its members live.
FleetRecord fleet(uint64_t number, uint64_t replicas, std::vector<Member> members) {
  FleetRecord fleet;
  fleet.terms = Terms{1000, 4096, replicas, 0, 1};
  fleet.registered.epoch = {number, replicas, 0, 4096, std::move(members)};
  fleet.epoch_revision = 100 * number;
  for (const char* name : {"a", "b", "c", "d"}) {
    if (fleet.registered.epoch.find(node_id(name)) == nullptr) continue;
    fleet.nodes.push_back({name, "tcp://127.0.0.1:1", 1, 5, 7});
  }
  return fleet;
}

// b has begun to leave in epoch 2.
Leaving b_leaves(uint64_t replicas, std::vector<Member> members) {
  Leaving b("b", fleet(1, replicas, std::move(members)));
  b.begun(200);
  return b;
}

TEST(Leaving, GoesOnInItsEpoch) {
  Leaving b = b_leaves(2, {kA, kB, kC});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(b.follow(fleet(2, 2, {kA, leaving(kB), kC})));
  EXPECT_EQ(b.incarnation(), kB.incarnation);
  EXPECT_EQ(b.epoch_revision(), 200);
  EXPECT_EQ(b.record_revision(), 7);
}

TEST(Leaving, RunThatIsAnotherOrStaysIsNotFollowed) {
  const Member again = {kB.node, 21, true};
  for (const auto& members : {std::vector<Member>{kA, kC}, std::vector<Member>{kA, kB, kC},
                              std::vector<Member>{kA, again, kC}}) {
    Leaving b = b_leaves(2, {kA, kB, kC});
    const auto followed = b.follow(fleet(3, 2, members));
    ASSERT_FALSE(followed);
    EXPECT_EQ(followed.error().code, Code::kAborted);
    EXPECT_THAT(followed.error().message, HasSubstr("left or come back"));
  }
}

TEST(Leaving, WhatWasNowhereElseMayBeLostWithAnyOtherEpoch) {
  // That it begins by itself is no other one.
  EXPECT_TRUE(b_leaves(1, {kA, kB}).follow(fleet(2, 1, {kA, leaving(kB)})));
  Leaving later = b_leaves(1, {kA, kB});
  ASSERT_TRUE(later.follow(fleet(2, 1, {kA, leaving(kB)})));
  // With any replicas of the new one, and also before it was first seen.
  for (const uint64_t replicas : {1, 2}) {
    Leaving b = b_leaves(1, {kA, kB});
    const auto followed = b.follow(fleet(3, replicas, {kA, leaving(kB), kC}));
    ASSERT_FALSE(followed);
    EXPECT_THAT(followed.error().message, HasSubstr("may be lost"));
  }
  EXPECT_FALSE(later.follow(fleet(3, 2, {kA, leaving(kB), kC})));
}

TEST(Leaving, AnotherCopyThatDiesMayHaveBeenTheLast) {
  const Member again = {kC.node, 31};
  Leaving joined = b_leaves(2, {kA, kB, kC});
  EXPECT_TRUE(joined.follow(fleet(3, 2, {kA, leaving(kB), kC, kD})));
  EXPECT_FALSE(joined.follow(fleet(4, 2, {kA, leaving(kB), kD})));
  EXPECT_FALSE(b_leaves(2, {kA, kB, kC}).follow(fleet(3, 2, {kA, leaving(kB), again})));
  Leaving of_three = b_leaves(3, {kA, kB, kC, kD});
  EXPECT_TRUE(of_three.follow(fleet(3, 2, {kA, leaving(kB), kC})));
  EXPECT_FALSE(of_three.follow(fleet(4, 1, {kA, leaving(kB)})));
}

TEST(Leaving, IsOverOnceItsRunIsNoMemberAndItsProcessHasAnotherRecord) {
  Leaving b = b_leaves(2, {kA, kB, kC});
  ASSERT_TRUE(b.follow(fleet(2, 2, {kA, leaving(kB), kC})));
  FleetRecord now = fleet(2, 2, {kA, leaving(kB), kC});
  EXPECT_FALSE(b.is_over(now).value());
  now.nodes[1].revision = 9;
  EXPECT_FALSE(b.is_over(now).value()) << "it was away from etcd";
  now.nodes.erase(now.nodes.begin() + 1);
  EXPECT_FALSE(b.is_over(now).value()) << "its lease has ended";
  EXPECT_TRUE(b.is_over(fleet(3, 2, {kA, kC})).value());
  now = fleet(3, 2, {kA, {kB.node, 21}, kC});
  EXPECT_FALSE(b.is_over(now).value()) << "another run of the same process";
  now.nodes[1].revision = 9;
  EXPECT_TRUE(b.is_over(now).value());
  const auto stays = b.is_over(fleet(3, 1, {kB}));
  ASSERT_FALSE(stays);
  EXPECT_THAT(stays.error().message, HasSubstr("hold pages again"));
}

// Answers each transaction as a test says, and remembers the last.
struct Transactions {
  explicit Transactions(const std::string& answer)
      : etcd([this, answer](const ScriptedEtcd::Request& request) {
          const std::lock_guard lock(mutex);
          last = request.body;
          return ScriptedEtcd::ok(answer);
        }) {
    Access access;
    access.endpoints = {etcd.endpoint()};
    access.prefix = "/farpage/x/";
    client.emplace(std::move(access));
  }
  static std::string condition(const std::string& key, const std::string& revision) {
    return R"({"key":")" + to_base64("/farpage/x/" + key) +
           R"(","target":"MOD","result":"EQUAL","mod_revision":")" + revision + "\"}";
  }
  std::string asked() {
    const std::lock_guard lock(mutex);
    return last;
  }

  std::mutex mutex;
  std::string last;
  ScriptedEtcd etcd;
  std::optional<Client> client;
};

constexpr const char* kHeld = R"({"header":{"cluster_id":"1","revision":"345"},"succeeded":true,)"
                              R"("responses":[{"response_put":{}}]})";
constexpr const char* kNotHeld = R"({"header":{"cluster_id":"1","revision":"345"}})";

uint64_t soon() {
  return boottime_clock().now_ns() + 20 * kSecond;
}

TEST(Drain, BeginsInTheEpochThatWasLookedAtAlone) {
  Transactions held(kHeld);
  const auto begun = begin_leaving(*held.client, "b", fleet(3, 2, {kA, kB, kC}), soon());
  ASSERT_TRUE(begun) << begun.error().message;
  EXPECT_EQ(*begun, 345);
  EXPECT_THAT(held.asked(), HasSubstr(Transactions::condition("epoch", "300")));
  Transactions other(kNotHeld);
  const auto aborted = begin_leaving(*other.client, "b", fleet(3, 2, {kA, kB, kC}), soon());
  ASSERT_FALSE(aborted);
  EXPECT_EQ(aborted.error().code, Code::kAborted);
}

TEST(Drain, OneThatLeavesAlreadyIsLeftAsItIs) {
  Transactions none(kHeld);
  const auto begun = begin_leaving(*none.client, "b", fleet(3, 2, {kA, leaving(kB), kC}), soon());
  ASSERT_TRUE(begun);
  EXPECT_EQ(*begun, 300);
  EXPECT_EQ(none.asked(), "");
  EXPECT_EQ(begin_leaving(*none.client, "z", fleet(3, 2, {kA, kB}), soon()).error().code,
            Code::kNotFound);
  EXPECT_EQ(begin_leaving(*none.client, "b", fleet(3, 2, {leaving(kA), kB}), soon()).error().code,
            Code::kInvalid);
  EXPECT_EQ(none.asked(), "");
}

TEST(Drain, LetsTheProcessGoThatWasSeenInTheEpochThatWasSeen) {
  Leaving b = b_leaves(2, {kA, kB, kC});
  ASSERT_TRUE(b.follow(fleet(2, 2, {kA, leaving(kB), kC})));
  Transactions held(kHeld);
  EXPECT_TRUE(let_go(*held.client, b, soon()));
  EXPECT_THAT(held.asked(), HasSubstr(Transactions::condition("epoch", "200")));
  EXPECT_THAT(held.asked(), HasSubstr(Transactions::condition("nodes/b", "7")));
  Transactions other(kNotHeld);
  EXPECT_EQ(let_go(*other.client, b, soon()).error().code, Code::kAborted);
}

}  // namespace
}  // namespace farpage::etcd
