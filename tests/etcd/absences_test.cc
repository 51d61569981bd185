#include "etcd/absences.h"

#include <gtest/gtest.h>

namespace farpage::etcd {
namespace {

using Nodes = std::vector<NodeId>;

constexpr uint64_t kEpoch = 4;

TEST(Absences, AreLongOnceTheyHaveLastedSoLong) {
  Absences absences;
  absences.tell(kEpoch, {7}, 100);
  EXPECT_EQ(absences.for_long(kEpoch, 50, 149), Nodes{});
  absences.tell(kEpoch, {7, 8}, 150);
  EXPECT_EQ(absences.for_long(kEpoch, 50, 150), Nodes{7});
  EXPECT_EQ(absences.for_long(kEpoch, 50, 200), (Nodes{7, 8}));
}

TEST(Absences, BeginAnewOnceTheMemberWasThere) {
  Absences absences;
  absences.tell(kEpoch, {7}, 100);
  absences.tell(kEpoch, {}, 140);
  absences.tell(kEpoch, {7}, 145);
  EXPECT_EQ(absences.for_long(kEpoch, 50, 194), Nodes{});
  EXPECT_EQ(absences.for_long(kEpoch, 50, 195), Nodes{7});
}

TEST(Absences, BeginAnewWithEachEpoch) {
  Absences absences;
  absences.tell(kEpoch, {7}, 100);
  EXPECT_EQ(absences.for_long(kEpoch + 1, 50, 200), Nodes{});
  absences.tell(kEpoch + 1, {7}, 200);
  EXPECT_EQ(absences.for_long(kEpoch + 1, 50, 249), Nodes{});
  EXPECT_EQ(absences.for_long(kEpoch + 1, 50, 250), Nodes{7});
  EXPECT_EQ(absences.for_long(kEpoch, 50, 250), Nodes{});
}

}  // namespace
}  // namespace farpage::etcd
