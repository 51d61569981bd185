#include "control/struct_members.h"

#include <gtest/gtest.h>

#include "control/messages.h"

namespace farpage {
namespace {

TEST(StructMembers, AreCountedAndNamed) {
  static_assert(member_count<StatusRequest>() == 0);
  static_assert(member_count<OpenLaneReply>() == 5, "one is optional, three are move-only");
  static_assert(kMemberName<PageKey, 0> == "low");
  static_assert(kMemberName<OpenLaneReply, 4> == "headers");
  static_assert(kMemberName<RegionExport, 4> == "fd");
  RegionExport region;
  region.bytes = 7;
  size_t seen = 0;
  each_member(region, [&](auto index, auto& member) {
    EXPECT_EQ(size_t{index}, seen++);
    if constexpr (index == 0) member += 1;
  });
  EXPECT_EQ(seen, 5u);
  EXPECT_EQ(region.bytes, 8u);
}

}  // namespace
}  // namespace farpage
