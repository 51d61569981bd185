#include "lab/analyse/measures/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace farpage::analyse {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Labels : public testing::Test {
 protected:
  Result<Milestones> read(const std::string& text, uint64_t pages = 4) {
    const std::string path = folder_ / "labels.csv";
    std::ofstream(path) << text;
    return read_milestones(path, pages);
  }
  void expect_refused(const std::string& text, const std::string& part) {
    const auto read_labels = read(text);
    ASSERT_FALSE(read_labels.has_value()) << text;
    EXPECT_THAT(read_labels.error().message, HasSubstr(part));
    EXPECT_THAT(read_labels.error().message, HasSubstr("labels.csv"));
  }

  TempDir folder_;
};

TEST_F(Labels, MilestonesAreThePagesThatAreCalledSo) {
  const auto milestones = read("page,label\r\n2,milestone\r\n0,segment\n\n3,milestone\n");
  ASSERT_TRUE(milestones.has_value()) << milestones.error().message;
  EXPECT_THAT(*milestones, ElementsAre(false, false, true, true));
}
TEST_F(Labels, MoreColumnsMayFollow) {
  const auto milestones =
      read("page,label,segment,phase\n0,milestone,7,verify\n1,other,,\n3,milestone,,\n");
  ASSERT_TRUE(milestones.has_value()) << milestones.error().message;
  EXPECT_THAT(*milestones, ElementsAre(true, false, false, true));
  expect_refused("page,labels\n", "page,label");
  for (const char* line : {"1,other", "1,other,7", "1,other,7,verify,more", "1,,7,verify", "1"}) {
    expect_refused(std::string("page,label,segment,phase\n0,milestone,,\n") + line + '\n', ":3");
  }
}
TEST_F(Labels, WhatIsNoLabelIsRefusedWithItsLine) {
  expect_refused("", "no page has the label");
  expect_refused("2,milestone\n", ":1");
  expect_refused("page,label\n1,other\n", "no page has the label");
  for (const char* line : {"1", "1,", ",milestone", "-1,milestone", "x,milestone", "1.5,milestone",
                           "99999999999999999999,milestone", "1 ,milestone"}) {
    expect_refused(std::string("page,label\n0,milestone\n") + line + '\n', ":3");
  }
  expect_refused("page,label\n4,milestone\n", "4 pages");
  expect_refused("page,label\n1,milestone\n1,milestone\n", "page 1 has a label already");
}
TEST_F(Labels, AFileThatIsNotThereIsNamed) {
  const auto milestones = read_milestones(folder_ / "none", 1);
  ASSERT_FALSE(milestones.has_value());
  EXPECT_THAT(milestones.error().message, HasSubstr("none"));
}

}  // namespace
}  // namespace farpage::analyse
