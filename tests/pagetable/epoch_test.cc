#include "pagetable/epoch.h"

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
          .members = {{node_id("a"), 11}, {node_id("b"), 12}, {node_id("c"), 13}}};
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
