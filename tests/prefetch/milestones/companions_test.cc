#include "prefetch/milestones/companions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace farpage::prefetch {
namespace {

using testing::UnorderedElementsAre;

std::vector<PageNumber> pages_of(Companions& companions, PageNumber page) {
  std::vector<PageNumber> pages;
  for (const auto& each : companions.of(page)) {
    if (each.weight > 0) pages.push_back(each.page);
  }
  return pages;
}

TEST(Companions, AreThosePagesThatCameSoonAfter) {
  Companions companions(10);
  companions.on_return(1, 100);
  companions.on_return(2, 105);
  companions.on_return(3, 110);
  companions.on_return(4, 116);
  EXPECT_THAT(pages_of(companions, 1), UnorderedElementsAre(2, 3));
  EXPECT_THAT(pages_of(companions, 2), UnorderedElementsAre(3));
  EXPECT_THAT(pages_of(companions, 4), UnorderedElementsAre());
  EXPECT_THAT(pages_of(companions, 99), UnorderedElementsAre());
}
TEST(Companions, WhoFollowsAgainAndAgainStaysAndOthersMakeRoom) {
  Companions companions(10);
  uint64_t step = 0;
  for (PageNumber stranger = 100; stranger < 140; ++stranger) {
    companions.on_return(1, step);
    companions.on_return(2, step + 1);
    companions.on_return(stranger, step + 2);
    step += 100;
  }
  const auto of_1 = pages_of(companions, 1);
  EXPECT_THAT(of_1, testing::Contains(2));
  EXPECT_THAT(of_1, testing::Contains(139));
  EXPECT_THAT(of_1, testing::Not(testing::Contains(100)));
}
TEST(Companions, NoPageIsItsOwn) {
  Companions companions(10);
  companions.on_return(1, 1);
  companions.on_return(1, 6);
  EXPECT_THAT(pages_of(companions, 1), UnorderedElementsAre());
}
TEST(Companions, ANumberThatIsUsedAgainHasNoneAndIsNobodys) {
  Companions companions(10);
  companions.on_return(1, 100);
  companions.on_return(2, 105);
  companions.on_return(3, 110);
  companions.on_forget(2);
  EXPECT_THAT(pages_of(companions, 1), UnorderedElementsAre(3));
  EXPECT_THAT(pages_of(companions, 2), UnorderedElementsAre());
  companions.on_return(4, 111);  // after 3, and not after the 2 of before
  EXPECT_THAT(pages_of(companions, 2), UnorderedElementsAre());
  companions.on_return(2, 112);
  EXPECT_THAT(pages_of(companions, 3), UnorderedElementsAre(2, 4));
}

}  // namespace
}  // namespace farpage::prefetch
