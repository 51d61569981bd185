#include "pagetable/epoch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "pagetable/epoch_register.h"

namespace farpage {
namespace {

Epoch three_nodes() {
  return {.number = 7,
          .replicas = 2,
          .seed = 1,
          .page_bytes = 4096,
          .members = {{node_id("a"), 11, false, 5},
                      {node_id("b"), 12, false, 0},
                      {node_id("c"), 13, false, 1023}}};
}

TEST(Epoch, IdentityIsOfEveryPartOfIt) {
  const Epoch epoch = three_nodes();
  const auto changed = [&](auto change) {
    Epoch other = epoch;
    change(other);
    return other.identity() != epoch.identity();
  };
  EXPECT_TRUE(changed([](Epoch& other) { ++other.number; }));
  EXPECT_TRUE(changed([](Epoch& other) { ++other.replicas; }));
  EXPECT_TRUE(changed([](Epoch& other) { ++other.seed; }));
  EXPECT_TRUE(changed([](Epoch& other) { ++other.page_bytes; }));
  EXPECT_TRUE(changed([](Epoch& other) { other.members.pop_back(); }));
  EXPECT_TRUE(changed([](Epoch& other) { ++other.members[1].incarnation; }));
  EXPECT_TRUE(changed([](Epoch& other) { other.members[0].node = node_id("d"); }));
  EXPECT_TRUE(changed([](Epoch& other) { other.members[2].leaving = true; }));
  EXPECT_TRUE(changed([](Epoch& other) { ++other.members[0].slot; }));
}

TEST(Epoch, OrderOfTheListIsNoPartOfIt) {
  Epoch other = three_nodes();
  std::ranges::reverse(other.members);
  EXPECT_EQ(other.identity(), three_nodes().identity());
}

TEST(Epoch, ListsThatCannotHoldAreRefusedInASentence) {
  const auto refusal = [](auto change) {
    Epoch epoch = three_nodes();
    change(epoch);
    const auto valid = validate(epoch);
    return valid ? std::string("taken") : valid.error().message;
  };
  EXPECT_EQ(refusal([](Epoch&) {}), "taken");
  EXPECT_NE(refusal([](Epoch& epoch) { epoch.members.push_back(epoch.members[0]); }).find("twice"),
            std::string::npos);
  EXPECT_NE(
      refusal([](Epoch& epoch) { epoch.members[1].slot = 5; }).find("two nodes are in slot 5"),
      std::string::npos);
  EXPECT_NE(refusal([](Epoch& epoch) {
              epoch.members[1].slot = kNoSlot;
            }).find("node " + fmt::format("{:016x}", node_id("b")) + " has no slot below 1024"),
            std::string::npos);
  EXPECT_NE(refusal([](Epoch& epoch) { epoch.replicas = 4; }).find("4 replicas on 3 nodes"),
            std::string::npos);
  EXPECT_NE(refusal([](Epoch& epoch) { epoch.replicas = 0; }).find("0 replicas"),
            std::string::npos);
  EXPECT_NE(refusal([](Epoch& epoch) { epoch.members.clear(); }).find("0 nodes"),
            std::string::npos);
  EXPECT_NE(refusal([](Epoch& epoch) { epoch.number = 0; }).find("epoch 0"), std::string::npos);
  EXPECT_NE(refusal([](Epoch& epoch) { epoch.page_bytes = 0; }).find("0 bytes"), std::string::npos);
  EXPECT_NE(refusal([](Epoch& epoch) {
              for (uint64_t i = 0; i < kMaxMembers; ++i) epoch.members.push_back({i + 1, 0});
            }).find("1027 nodes"),
            std::string::npos);
}

TEST(Epoch, MembersKeepTheirSlotsAndOthersGetFreeOnes) {
  Epoch before = three_nodes();
  Epoch next = before;
  next.members[1] = {node_id("b"), 99};  // another run
  for (int i = 0; i < 1'000; ++i) next.members.push_back({node_id(std::to_string(i)), 1});
  Epoch reversed = next;
  std::ranges::reverse(reversed.members);
  next.give_slots(before.members);
  EXPECT_TRUE(validate(next));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(next.members[i].slot, before.members[i].slot);
  reversed.give_slots(before.members);
  std::ranges::reverse(reversed.members);
  EXPECT_EQ(reversed.members, next.members) << "the order of the list does not count";
}

TEST(Epoch, AsManyMembersAsThereAreSlotsHaveOneEach) {
  Epoch epoch = {.number = 1, .replicas = 1, .seed = 0, .page_bytes = 4096, .members = {}};
  for (uint64_t i = 0; i < kMaxMembers; ++i) epoch.members.push_back({i + 1, 0});
  epoch.give_slots();
  EXPECT_TRUE(validate(epoch));
  epoch.members.push_back({kMaxMembers + 1, 0});
  epoch.give_slots();
  EXPECT_FALSE(validate(epoch));
}

TEST(Epoch, MembersThatLeaveHoldNoReplicas) {
  Epoch epoch = three_nodes();
  epoch.members[1].leaving = true;
  EXPECT_EQ(epoch.holders(), 2u);
  EXPECT_TRUE(validate(epoch));
  epoch.members[0].leaving = true;
  const auto refused = validate(epoch);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("2 replicas on 1 nodes"), std::string::npos);
  epoch.set_replicas(2);
  EXPECT_EQ(epoch.replicas, 1u);
  EXPECT_TRUE(validate(epoch));
}

TEST(Epoch, NamesAreTheSameNodeEverywhere) {
  // SHA-256 of the length 12 in 8 bytes, "farpage node", "a": its first 8 bytes, little endian.
  EXPECT_EQ(node_id("a"), 0xc4a52705d081136bu);
  EXPECT_NE(node_id("a"), node_id("b"));
}

TEST(Epoch, IsConfirmedByAllOrNot) {
  RegisteredEpoch registered = {three_nodes(), {node_id("a"), node_id("c")}};
  EXPECT_FALSE(registered.all_confirmed());
  registered.confirmed.push_back(node_id("x"));
  EXPECT_FALSE(registered.all_confirmed());
  registered.confirmed.push_back(node_id("b"));
  EXPECT_TRUE(registered.all_confirmed());
}

}  // namespace
}  // namespace farpage
