#include "sim/page_frames.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

class PageFramesTest : public testing::Test {
 protected:
  size_t take() {
    size_t index = 99;
    EXPECT_TRUE(frames_.take(index));
    return index;
  }

  std::vector<size_t> late_;
  PageFrames frames_{2, 64, [this](size_t frame) { late_.push_back(frame); }};
};

TEST_F(PageFramesTest, EachIsTakenOnce) {
  EXPECT_NE(take(), take());
  size_t index = 0;
  EXPECT_FALSE(frames_.take(index));
}

TEST_F(PageFramesTest, NobodyIsLateWhoWritesWhileItIsTaken) {
  const size_t index = take();
  frames_.frame(index)[63] = std::byte{7};
  frames_.check_all();
  frames_.give_back(index);
  frames_.check_all();
  EXPECT_TRUE(late_.empty());
}

TEST_F(PageFramesTest, LandingAfterItWasGivenBackIsLateAtTheEndAndWhenItIsUsedAgain) {
  const size_t index = take();
  frames_.give_back(index);
  frames_.frame(index)[63] = std::byte{7};
  frames_.check_all();
  EXPECT_EQ(late_, std::vector<size_t>{index});
  take();
  take();
  EXPECT_EQ(late_, (std::vector<size_t>{index, index}));
}

}  // namespace
}  // namespace farpage
