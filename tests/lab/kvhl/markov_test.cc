#include "lab/kvhl/markov.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace farpage::kvhl {
namespace {

using prefetch::PageNumber;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<PageNumber> named_after(const std::vector<PageNumber>& accessed, uint64_t least_count) {
  Markov markov(least_count);
  for (const PageNumber page : accessed) markov.on_access({0, 0, page});
  std::array<PageNumber, 2> pages = {};
  const size_t named = markov.candidates(pages);
  return {pages.begin(), pages.begin() + named};
}

TEST(Markov, NamesWhatFollowedMostOften) {
  EXPECT_THAT(named_after({1, 2, 1, 3, 1, 3, 1}, 1), ElementsAre(3, 2));
}
TEST(Markov, OfEqualsNamesWhatFollowedFirst) {
  EXPECT_THAT(named_after({1, 4, 1, 3, 1, 2, 1}, 1), ElementsAre(4, 3));
}
TEST(Markov, NamesNothingThatFollowedTooRarely) {
  EXPECT_THAT(named_after({1, 2, 1, 3, 1, 3, 1}, 2), ElementsAre(3));
  EXPECT_THAT(named_after({1, 2, 1}, 2), IsEmpty());
}
TEST(Markov, NamesNothingBeforeAnything) {
  EXPECT_THAT(named_after({}, 1), IsEmpty());
  EXPECT_THAT(named_after({5}, 1), IsEmpty());
}

}  // namespace
}  // namespace farpage::kvhl
