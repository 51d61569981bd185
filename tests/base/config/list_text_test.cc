#include "base/config/list_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace farpage {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> split(const char* text, ListOf kind = ListOf::kWords) {
  return split_list("table.key", text, kind).value();
}

TEST(ListText, EntriesHaveCommasBetweenThemAndPerhapsSpaces) {
  EXPECT_THAT(split("a"), ElementsAre("a"));
  EXPECT_THAT(split("a,b"), ElementsAre("a", "b"));
  EXPECT_THAT(split(" a ,\tb,\n c\n"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split("a,,b"), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("a,"), ElementsAre("a"));
  EXPECT_THAT(split(""), IsEmpty());
  EXPECT_THAT(split("  "), IsEmpty());
}

TEST(ListText, AnotherSeparatorIsNamed) {
  for (const char* text : {"http://a:1;http://b:1", "http://a:1; http://b:1", "c,a b", "a\nb"}) {
    const auto list = split_list("table.key", text, ListOf::kWords);
    ASSERT_FALSE(list) << text;
    EXPECT_EQ(list.error().code, Code::kInvalid);
    EXPECT_THAT(list.error().message,
                AllOf(HasSubstr("table.key"), HasSubstr("separate entries by commas")));
  }
}

TEST(ListText, PathsMayHaveSpacesAndListsOfThemOtherSeparatorsNot) {
  EXPECT_THAT(split("a=/my node;1,b=/y", ListOf::kPaths), ElementsAre("a=/my node;1", "b=/y"));
  for (const char* text : {"a=/x;b=/y", "a=/x b=/y", "a=/x\nb=/y", "a=/x; b=/y,c=/z"}) {
    EXPECT_FALSE(split_list("table.key", text, ListOf::kPaths)) << text;
  }
}

}  // namespace
}  // namespace farpage
