#include "chaos/processes/kept_pages.h"

#include <gtest/gtest.h>

#include <string>

#include "chaos/processes/engine.h"

namespace farpage::processes {
namespace {

using chaos::holds;

Epoch epoch_of(const std::vector<std::string>& names) {
  Epoch epoch;
  epoch.number = 1;
  epoch.replicas = 2;
  for (const std::string& name : names) epoch.members.push_back({node_id(name), 0});
  epoch.give_slots();
  return epoch;
}

class KeptPagesTest : public testing::Test {
 protected:
  // A key that n0 and n1 hold, and n2 does not.
  static PageKey key_of_first_two() {
    const Epoch epoch = epoch_of({"n0", "n1", "n2"});
    for (const PageKey& key : Keys(1'000, 0).all) {
      if (!holds(epoch, node_id("n2"), key)) return key;
    }
    ADD_FAILURE() << "there is none";
    return {};
  }
  std::vector<NodeState> now_ = {
      {node_id("n0"), 11, 0}, {node_id("n1"), 12, 5}, {node_id("n2"), 13, 0}};
  const PageKey key_ = key_of_first_two();
  const KeptPages kept_{epoch_of({"n0", "n1", "n2"}), now_};
};

TEST_F(KeptPagesTest, MustBeThereWhereOneNodeOfItsSetIsTheSame) {
  EXPECT_TRUE(kept_.must_be_there(key_, now_));
  now_[0].incarnation = 20;
  EXPECT_TRUE(kept_.must_be_there(key_, now_));
}

TEST_F(KeptPagesTest, NeedNotBeThereWhereNoneOfItsSetIs) {
  now_[0].incarnation = 20;
  now_[1].incarnation = 21;
  EXPECT_FALSE(kept_.must_be_there(key_, now_)) << "n2 never had it";
}

TEST_F(KeptPagesTest, NeedNotBeThereWhereTheOneThatIsHasEvicted) {
  now_[0].incarnation = 20;
  ++now_[1].evictions;
  EXPECT_FALSE(kept_.must_be_there(key_, now_));
}

TEST_F(KeptPagesTest, MustHaveStayedWhereEveryNodeOfItsSetIsTheSame) {
  EXPECT_TRUE(kept_.must_have_stayed(key_, now_));
  now_[2].incarnation = 20;
  EXPECT_TRUE(kept_.must_have_stayed(key_, now_)) << "n2 never had it";
  ++now_[1].evictions;
  EXPECT_FALSE(kept_.must_have_stayed(key_, now_));
  --now_[1].evictions;
  now_[0].incarnation = 20;
  EXPECT_FALSE(kept_.must_have_stayed(key_, now_)) << "n0 may not have had it again yet";
}

// Its assumption: nodes that go take nothing from the sets of those that stay.
TEST(KeptPagesPremise, WhoHoldsAKeyAmongAllHoldsItAmongAny) {
  const std::vector<std::string> names = {"n0", "n1", "n2", "n3"};
  const Epoch all = epoch_of(names);
  for (unsigned subset = 1; subset < 1u << names.size(); ++subset) {
    std::vector<std::string> some;
    for (size_t node = 0; node < names.size(); ++node) {
      if ((subset >> node & 1) != 0) some.push_back(names[node]);
    }
    Epoch epoch = epoch_of(some);
    epoch.set_replicas(2);
    for (const PageKey& key : Keys(300, 0).all) {
      for (const std::string& name : some) {
        EXPECT_LE(holds(all, node_id(name), key), holds(epoch, node_id(name), key));
      }
    }
  }
}

}  // namespace
}  // namespace farpage::processes
