#include "pagetable/known_run.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

TEST(KnownRun, GoesBackWhereAVersionCouldBeGivenOutTwice) {
  EXPECT_TRUE(goes_back({5, 11}, {4, 12}));
  EXPECT_TRUE(goes_back({5, 11}, {5, 12}));
  EXPECT_TRUE(goes_back({5, 11}, {4, 11}));
  EXPECT_FALSE(goes_back({5, 11}, {5, 11}));
  EXPECT_FALSE(goes_back({5, 11}, {6, 11})) << "a run that has used up its versions";
  EXPECT_FALSE(goes_back({5, 11}, {6, 12}));
  EXPECT_FALSE(goes_back({}, {1, 12}));
}

TEST(KnownRun, SentenceNamesTheFirstEpochThatIsFree) {
  const std::string told = gone_back(5, 1);
  EXPECT_NE(told.find("from epoch 5 to 1"), std::string::npos) << told;
  EXPECT_NE(told.find("node.state"), std::string::npos) << told;
  EXPECT_NE(told.find("--set node.least_epoch=6"), std::string::npos) << told;
}

}  // namespace
}  // namespace farpage
