#include "node/store/name_spaces.h"

#include <gtest/gtest.h>

#include <string>

#include "integrity/facts.h"

namespace farpage {
namespace {

std::string name_space(const std::string& model) {
  return name_space_of(model);  // as good as any 32 bytes
}
uint32_t tag_of(const std::string& model) {
  return name_space_tag(name_space(model));
}
void tell(NameSpaces& spaces, const std::string& model) {
  spaces.told(name_space(model), "model=" + model);
}

TEST(NameSpaces, AreShownByTheirPagesTheMostFirst) {
  NameSpaces spaces(8);
  tell(spaces, "a");
  tell(spaces, "without pages");
  spaces.came(0, tag_of("a"));
  for (const uint32_t slot : {1, 2}) spaces.came(slot, 0x0D0C0B0A);
  spaces.came(3, 0);
  const auto status = spaces.status(1024);
  ASSERT_EQ(status.size(), 2u);
  EXPECT_EQ(status[0].name_space, "0a0b0c0d") << "no client has told its facts";
  EXPECT_EQ(status[0].facts, "");
  EXPECT_EQ(status[0].pages, 2u);
  EXPECT_EQ(status[0].held_bytes, 2048u);
  EXPECT_EQ(status[1].name_space, name_space_digits(name_space("a")));
  EXPECT_EQ(status[1].facts, "model=a");
}

TEST(NameSpaces, FactsMayBeToldAfterThePages) {
  NameSpaces spaces(8);
  spaces.came(0, tag_of("a"));
  tell(spaces, "a");
  EXPECT_EQ(spaces.status(1).front().facts, "model=a");
}

TEST(NameSpaces, LongFactsAreCutBehindALine) {
  NameSpaces spaces(8);
  spaces.came(0, tag_of("a"));
  spaces.told(name_space("a"), "model=a\n" + std::string(5000, 'x') + "=y\n");
  EXPECT_EQ(spaces.status(1).front().facts, "model=a\n");
  spaces.told(name_space("a"), std::string(5000, 'x') + "=y");
  EXPECT_EQ(spaces.status(1).front().facts, "");
}

TEST(NameSpaces, ASlotIsCountedOnce) {
  NameSpaces spaces(8);
  spaces.came(0, 5);
  spaces.went(0);
  spaces.went(0);
  EXPECT_EQ(spaces.tag(0), 0u);
  EXPECT_TRUE(spaces.status(1).empty());
}

TEST(NameSpaces, OfSeveralNodesTheLargestAreKept) {
  std::vector<NameSpaceStatus> all;
  for (uint64_t pages = 0; pages < 2 * kMaxNameSpaces; ++pages) {
    all.emplace_back();
    all.back().pages = pages;
  }
  keep_largest(all);
  ASSERT_EQ(all.size(), kMaxNameSpaces);
  for (uint64_t i = 0; i < kMaxNameSpaces; ++i) EXPECT_EQ(all[i].pages, 2 * kMaxNameSpaces - 1 - i);
}

// However many clients tell facts, and whoever puts pages of however many namespaces.
TEST(NameSpaces, ThoseWithoutPagesGiveWay) {
  NameSpaces spaces(1000);
  spaces.came(0, tag_of("kept"));
  tell(spaces, "kept");
  for (int i = 0; i < 2000; ++i) tell(spaces, "client " + std::to_string(i));
  for (uint32_t slot = 1; slot < 1000; ++slot) spaces.came(slot, slot);
  const auto status = spaces.status(1);
  EXPECT_EQ(status.size(), kMaxNameSpaces);
  EXPECT_EQ(spaces.tag(0), tag_of("kept"));
  uint64_t counted = 0;
  for (uint32_t slot = 0; slot < 1000; ++slot) counted += spaces.tag(slot) != 0 ? 1 : 0;
  EXPECT_EQ(counted, 255u);
  for (uint32_t slot = 0; slot < 1000; ++slot) spaces.went(slot);
  EXPECT_TRUE(spaces.status(1).empty());
  spaces.came(7, 77'777);
  EXPECT_EQ(spaces.tag(7), 77'777u);
}

}  // namespace
}  // namespace farpage
