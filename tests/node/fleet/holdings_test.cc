#include "node/fleet/holdings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "integrity/crc32c.h"
#include "pagetable/placement.h"
#include "sim/network/sim_fabric.h"
#include "tests/node/fleet/one_register.h"

namespace farpage {
namespace {

constexpr Member kSelf = {7, 70, false, 1};
constexpr Member kOther = {8, 80, false, 2};
constexpr Member kThird = {9, 90, false, 3};
constexpr uint64_t kPageBytes = 64;
constexpr uint64_t kSlots = 10'000;  // of which a turn looks at 4,096
constexpr uint64_t kPages = 9'000;

PageKey key_of(uint64_t number) {
  return make_page_key("holdings", std::to_string(number));
}

// A member with its store, of epochs that the test begins, and others that ask it.
class HoldingsTest : public ::testing::Test {
 protected:
  HoldingsTest() {
    fleet_.epochs = &epochs_;
    fleet_.view_ns = kSecond;
    make_store(kSlots);
    node_.emplace(machine_.runtime(), fleet_, kSelf, kPageBytes,
                  NodeEpoch::Hooks{[this] {
                                     foreign_->begin_epoch();
                                     holdings_->begin_epoch();
                                   },
                                   [] {}});
    make_holdings();
    node_->start();
    run_until([this] { return node_->epoch().number == 1; });
  }

  void make_store(uint64_t slots) {
    const Geometry geometry =
        make_geometry(kPageBytes, slots * (kPageBytes + sizeof(PageHeader))).value();
    store_ =
        PageStore::create({geometry, 70, kMillisecond, true}, machine_, machine_.runtime().clock())
            .value();
  }
  void make_holdings() {
    foreign_.emplace(machine_.runtime(), *store_, *node_, fleet_.view_ns,
                     [this] { node_->killed(); });
    holdings_.emplace(machine_.runtime(), *store_, *node_, *foreign_);
  }
  // Those that are this node's, each in the next slot.
  void put(uint64_t pages = kPages) {
    const std::vector<std::byte> payload(kPageBytes, std::byte{1});
    const uint32_t crc = crc32c(0, payload.data(), payload.size());
    for (uint64_t i = 0; store_->slots().live_count() < pages; ++i) {
      if (!holds(kSelf, key_of(i))) continue;
      ASSERT_EQ(store_->put(key_of(i), make_version(1, 1 + i), payload, crc), Code::kOk);
      keys_.push_back(key_of(i));
    }
  }
  void begin_epoch(std::vector<Member> members) {
    Epoch next = epochs_.current.epoch;
    ++next.number;
    next.members = std::move(members);
    epochs_.current = {next, {}};
    node_->look();
    run_until([&] { return node_->epoch().number == next.number; });
  }
  void run_until(const std::function<bool()>& what) {
    const uint64_t end_ns = world_.now_ns() + kSecond;
    while (!what() && world_.now_ns() < end_ns) world_.run_until(world_.now_ns() + 50'000);
    ASSERT_TRUE(what());
  }
  void run_for(uint64_t time_ns) { world_.run_until(world_.now_ns() + time_ns); }

  // By the placement as others compute it.
  static bool holds(const Epoch& epoch, const Member& member, const PageKey& key) {
    const ReplicaSet set = Placement(epoch).replicas(key);
    for (size_t rank = 0; rank < set.size(); ++rank) {
      if (epoch.members[set[rank]] == member) return true;
    }
    return false;
  }
  bool holds(const Member& member, const PageKey& key) const {
    return holds(epochs_.current.epoch, member, key);
  }
  std::unordered_set<PageKey> keys_of(const Member& member) const {
    std::unordered_set<PageKey> found;
    for (const PageKey& key : keys_) {
      if (holds(member, key)) found.insert(key);
    }
    return found;
  }

  Reply ask(const Member& member, uint64_t cursor, uint64_t since = 0) {
    return holdings_->answer(member.node, member.node, {node_->tag(), {}, cursor, since});
  }
  HoldingsReply told(const Member& member, uint64_t cursor, uint64_t since = 0) {
    Reply reply = ask(member, cursor, since);
    EXPECT_TRUE(std::holds_alternative<HoldingsReply>(reply));
    return std::get<HoldingsReply>(std::move(reply));
  }
  std::string refusal(const Member& member, uint64_t cursor) {
    const Reply reply = ask(member, cursor);
    const auto* refused = std::get_if<Refusal>(&reply);
    EXPECT_TRUE(refused != nullptr);
    return refused == nullptr ? "" : refused->message;
  }
  // Asks on until the end, as a member does: a while later where there is more to come.
  std::vector<HeldPage> all_told(const Member& member, uint64_t since = 0, uint64_t cursor = 0) {
    std::vector<HeldPage> pages;
    for (int questions = 0; questions < 100; ++questions) {
      const HoldingsReply reply = told(member, cursor, since);
      EXPECT_LE(reply.pages.size(), kMaxReplicaPages);
      pages.insert(pages.end(), reply.pages.begin(), reply.pages.end());
      if (reply.next == 0) {
        EXPECT_FALSE(reply.looking);
        return pages;
      }
      EXPECT_GT(reply.next, cursor);
      cursor = reply.next;
      if (reply.looking) run_for(kMillisecond);
    }
    ADD_FAILURE() << "there is no end";
    return pages;
  }
  static std::unordered_set<PageKey> keys_in(const std::vector<HeldPage>& pages) {
    std::unordered_set<PageKey> keys;
    for (const HeldPage& page : pages) {
      EXPECT_TRUE(keys.insert(page.key).second) << "is told once";
    }
    return keys;
  }

  sim::World world_{1};
  sim::SimFabric machine_{world_, {}};
  OneRegister epochs_{world_, {1, 2, 5, kPageBytes, {kSelf, kOther, kThird}}};
  Fleet fleet_;
  std::unique_ptr<PageStore> store_;
  std::optional<NodeEpoch> node_;
  std::optional<ForeignPages> foreign_;
  std::optional<Holdings> holdings_;
  std::vector<PageKey> keys_;
};

TEST_F(HoldingsTest, EachMemberIsToldOfItsPages) {
  put();
  const auto pages = all_told(kOther);
  EXPECT_EQ(keys_in(pages), keys_of(kOther));
  EXPECT_EQ(keys_in(all_told(kThird)), keys_of(kThird));
  EXPECT_GT(pages.size(), kPages / 3);
  for (const HeldPage& page : pages) {
    const auto stored = store_->find(page.key);
    ASSERT_TRUE(stored);
    EXPECT_EQ(page.slot, stored->slot);
    EXPECT_EQ(page.version, stored->version);
    EXPECT_EQ(page.payload_bytes, kPageBytes);
    EXPECT_FALSE(page.dead);
  }
}

TEST_F(HoldingsTest, AllWhoAskShareOneWalk) {
  put();
  EXPECT_TRUE(told(kOther, 0).looking);
  EXPECT_TRUE(told(kThird, 0).looking);
  run_for(kSlots / 4096 * kMillisecond + kMillisecond / 2);
  std::vector<uint64_t> first = {told(kOther, 1).pages.size(), told(kThird, 1).pages.size()};
  EXPECT_EQ(first, (std::vector<uint64_t>{kMaxReplicaPages, kMaxReplicaPages}));
  size_t looks = 0;
  for (const Member& member : {kOther, kThird}) {
    for (HoldingsReply reply = told(member, 1); reply.next != 0; reply = told(member, reply.next)) {
      looks += reply.looking ? 1 : 0;
    }
  }
  EXPECT_EQ(looks, 0u) << "the walk is over for both";
}

TEST_F(HoldingsTest, WhatIsNotKnownYetIsNotTheEnd) {
  put();
  const HoldingsReply first = told(kOther, 0);
  EXPECT_TRUE(first.looking);
  EXPECT_EQ(first.pages.size(), 0u);
  EXPECT_GT(first.next, 0u);
  const HoldingsReply second = told(kOther, first.next);
  EXPECT_TRUE(second.looking);
  EXPECT_GT(second.next, first.next);
  run_for(kMillisecond / 2);  // one turn
  uint64_t pages = 0;
  HoldingsReply reply = told(kOther, second.next);
  for (; !reply.looking; reply = told(kOther, reply.next)) {
    ASSERT_NE(reply.next, 0u);
    pages += reply.pages.size();
  }
  pages += reply.pages.size();
  EXPECT_GT(pages, 4096 / 3u);
  EXPECT_LT(pages, 4096u);
  EXPECT_EQ(pages + all_told(kOther, 0, reply.next).size(), keys_of(kOther).size());
}

TEST_F(HoldingsTest, WhoAsksInTheMiddleOfAWalkIsToldOfAllAllTheSame) {
  put();
  EXPECT_TRUE(told(kOther, 0).looking);
  run_for(kMillisecond / 2);
  EXPECT_EQ(keys_in(all_told(kThird)), keys_of(kThird));
  EXPECT_EQ(keys_in(all_told(kOther)), keys_of(kOther));
}

TEST_F(HoldingsTest, OneWithoutPagesHasNothingToLookFor) {
  EXPECT_TRUE(told(kOther, 0).looking);
  run_for(kMillisecond / 2);
  EXPECT_EQ(told(kOther, 1).next, 0u);
}

// A page that is told as live, and is then killed, would be read in vain.
TEST_F(HoldingsTest, PageOfOthersIsKilledBeforeItIsTold) {
  put();
  constexpr Member kFourth = {10, 100, false, 4};
  begin_epoch({kSelf, kOther, kThird, kFourth});
  const size_t lost = static_cast<size_t>(
      std::ranges::count_if(keys_, [this](const PageKey& key) { return !holds(kSelf, key); }));
  ASSERT_GT(lost, kPages / 6);
  ASSERT_LT(store_->slots().dead_count(), lost) << "it still kills";
  const auto pages = all_told(kFourth);
  EXPECT_EQ(keys_in(pages), keys_of(kFourth));
  size_t dead = 0;
  for (const HeldPage& page : pages) {
    EXPECT_EQ(page.dead, !holds(kSelf, page.key));
    dead += page.dead ? 1 : 0;
  }
  EXPECT_EQ(dead, lost) << "each is lost to the one that joined";
}

TEST_F(HoldingsTest, MemberThatWasWholeIsToldOfWhatItDidNotHold) {
  put();
  const Epoch before = epochs_.current.epoch;
  begin_epoch({kSelf, kOther});
  std::unordered_set<PageKey> lacks;
  for (const PageKey& key : keys_) {
    if (!holds(before, kOther, key)) lacks.insert(key);
  }
  EXPECT_GT(lacks.size(), kPages / 3);
  EXPECT_LT(lacks.size(), kPages * 2 / 3);
  EXPECT_EQ(keys_in(all_told(kOther, 1)), lacks);
  EXPECT_EQ(keys_in(all_told(kOther)).size(), kPages) << "it does not say that it was whole";
}

TEST_F(HoldingsTest, MemberThatWasWholeInAnEpochThatThisNodeDoesNotKnowIsToldOfAll) {
  put();
  EXPECT_EQ(keys_in(all_told(kOther, 1)), keys_of(kOther)) << "this one";
  begin_epoch({kSelf, kOther, kThird});
  begin_epoch({kSelf, kOther, kThird});
  EXPECT_EQ(all_told(kOther, 2).size(), 0u);
  EXPECT_EQ(keys_in(all_told(kOther, 1)), keys_of(kOther)) << "the one before the last";
  EXPECT_EQ(keys_in(all_told(kOther, 7)), keys_of(kOther));
  EXPECT_EQ(keys_in(all_told(kOther, UINT64_MAX)), keys_of(kOther));
}

TEST_F(HoldingsTest, MemberThatHasJoinedIsToldOfAllWhateverItSays) {
  put();
  constexpr Member kFourth = {10, 100, false, 4};
  begin_epoch({kSelf, kOther, kThird, kFourth});
  EXPECT_EQ(keys_in(all_told(kFourth, 1)), keys_of(kFourth));
}

TEST_F(HoldingsTest, CursorThatWasNotGivenOutIsRefused) {
  put();
  EXPECT_NE(refusal(kOther, 1).find("cursor 1: ask for its holdings from 0 on"), std::string::npos);
  const uint64_t next = told(kOther, 0).next;
  EXPECT_NE(refusal(kOther, next + 1), "");
  EXPECT_NE(refusal(kOther, UINT64_MAX), "");
  EXPECT_NE(refusal(kThird, next), "") << "another member's";
  EXPECT_EQ(keys_in(all_told(kOther)), keys_of(kOther));
}

TEST_F(HoldingsTest, CursorThatComesAgainIsAnsweredAgain) {
  put();
  const uint64_t next = told(kOther, 0).next;
  run_for(10 * kMillisecond);
  const HoldingsReply once = told(kOther, next);
  const HoldingsReply twice = told(kOther, next);
  ASSERT_EQ(once.pages.size(), kMaxReplicaPages);
  EXPECT_EQ(twice.next, once.next);
  EXPECT_EQ(twice.pages.front().key, once.pages.front().key);
  EXPECT_NE(told(kOther, once.next).pages.front().key, once.pages.front().key);
  EXPECT_NE(refusal(kOther, next), "") << "that one is forgotten";
}

TEST_F(HoldingsTest, NewLinkBeginsANewWalkAndEndsTheOneBefore) {
  put();
  const uint64_t next = told(kOther, 0).next;
  run_for(10 * kMillisecond);
  const auto on = [&](ClientId session, uint64_t cursor) {
    return holdings_->answer(session, kOther.node, {node_->tag(), {}, cursor});
  };
  EXPECT_TRUE(std::get<HoldingsReply>(on(1000, 0)).looking);
  EXPECT_TRUE(std::holds_alternative<Refusal>(on(kOther.node, next)));
  holdings_->disconnected(1000);
  EXPECT_TRUE(std::holds_alternative<Refusal>(on(1000, next)));
}

TEST_F(HoldingsTest, PageThatHasGoneSinceItWasFoundIsNotTold) {
  put();
  const uint64_t next = told(kOther, 0).next;
  run_for(10 * kMillisecond);
  const HoldingsReply first = told(kOther, next);
  std::unordered_set<PageKey> left = keys_of(kOther);
  for (const HeldPage& page : first.pages) left.erase(page.key);
  const PageKey gone = *left.begin();
  ASSERT_TRUE(store_->remove(gone));
  left.erase(gone);
  EXPECT_EQ(keys_in(all_told(kOther, 0, first.next)), left);
}

// The slot of one that another member holds, and this one does not.
TEST_F(HoldingsTest, PageThatHasTakenThePlaceOfAnotherIsToldToItsHoldersAlone) {
  put(kSlots - 2000);
  const uint64_t next = told(kOther, 0).next;
  run_for(10 * kMillisecond);
  const HoldingsReply first = told(kOther, next);
  std::unordered_set<PageKey> left = keys_of(kOther);
  for (const HeldPage& page : first.pages) left.erase(page.key);
  for (const PageKey& key : std::unordered_set<PageKey>(left)) store_->remove(key);
  run_for(10 * kMillisecond);  // they cool
  const std::vector<std::byte> payload(kPageBytes, std::byte{2});
  const uint32_t crc = crc32c(0, payload.data(), payload.size());
  std::unordered_set<PageKey> came;
  for (uint64_t i = 1'000'000; store_->slots().live_count() < kSlots - 1000; ++i) {
    if (!holds(kSelf, key_of(i))) continue;
    const Code code = store_->put(key_of(i), make_version(1, 1 + i), payload, crc);
    if (code == Code::kExhausted) break;
    ASSERT_EQ(code, Code::kOk);
    if (holds(kOther, key_of(i))) came.insert(key_of(i));
  }
  for (const HeldPage& page : all_told(kOther, 0, first.next)) {
    EXPECT_TRUE(came.contains(page.key));
  }
}

TEST_F(HoldingsTest, NextEpochEndsTheListsOfThisOne) {
  put();
  const uint64_t next = told(kOther, 0).next;
  run_for(kMillisecond / 2);
  begin_epoch({kSelf, kOther});
  EXPECT_NE(refusal(kOther, next), "");
  EXPECT_EQ(all_told(kOther).size(), kPages);
  EXPECT_EQ(all_told(kThird).size(), 0u) << "a member no more";
}

// Whatever is asked, the walk takes a turn each millisecond.
TEST_F(HoldingsTest, AskingFromTheBeginningOverAndOverMakesOneWalkOfTurns) {
  put();
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(told(kOther, 0).looking);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(told(kOther, 0, i % 2).looking);
  run_for(kMillisecond / 2);
  EXPECT_TRUE(told(kThird, 0).looking);
  const size_t found = told(kOther, 0, 1).pages.size();
  EXPECT_EQ(found, kMaxReplicaPages);
  EXPECT_EQ(keys_in(all_told(kOther, 0)), keys_of(kOther));
}

}  // namespace
}  // namespace farpage
