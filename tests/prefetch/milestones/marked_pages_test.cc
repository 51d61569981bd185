#include "prefetch/milestones/marked_pages.h"

#include <gtest/gtest.h>

namespace farpage::prefetch {
namespace {

TEST(MarkedPages, AreThoseThatWereMarkedAsFarAsThereIsRoom) {
  MarkedPages marked;
  EXPECT_FALSE(marked.contains(0));
  marked.add(3);
  marked.add(4'000'000'000U);  // of which nobody ever heard
  EXPECT_TRUE(marked.contains(3));
  EXPECT_TRUE(marked.contains(4'000'000'000U));
  EXPECT_FALSE(marked.contains(4));
  marked.add(3 + (1U << 16));
  EXPECT_FALSE(marked.contains(3));
}
TEST(MarkedPages, NoPageIsAsNone) {
  MarkedPages marked;
  EXPECT_FALSE(marked.contains(UINT32_MAX));
}
TEST(MarkedPages, OneThatIsRemovedIsNoneAndAnotherInItsPlaceStays) {
  MarkedPages marked;
  marked.add(3);
  marked.remove(3 + (1U << 16));
  EXPECT_TRUE(marked.contains(3));
  marked.remove(3);
  EXPECT_FALSE(marked.contains(3));
}

}  // namespace
}  // namespace farpage::prefetch
