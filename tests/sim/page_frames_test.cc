#include "sim/page_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

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

class TwoOfADevice : public DeviceFrames {
 public:
  void fill(size_t frame, std::byte value) override { bytes[frame].assign(64, value); }
  void read(size_t frame, std::span<std::byte> into) override {
    std::ranges::copy(bytes[frame], into.begin());
  }

  std::array<std::vector<std::byte>, 2> bytes;
};

TEST(PageFramesOfADevice, ShowWhatTheDeviceHas) {
  TwoOfADevice device;
  std::vector<size_t> late;
  PageFrames frames(
      2, 64, [&](size_t frame) { late.push_back(frame); }, &device);
  size_t index = 99;
  ASSERT_TRUE(frames.take(index));
  EXPECT_EQ(device.bytes[index], std::vector<std::byte>(64));
  device.bytes[index][63] = std::byte{7};
  EXPECT_EQ(frames.landed(index)[63], std::byte{7});
  frames.give_back(index);
  EXPECT_NE(device.bytes[index][63], std::byte{7});
  frames.check_all();
  EXPECT_TRUE(late.empty());
  device.bytes[index][63] = std::byte{7};
  frames.check_all();
  EXPECT_EQ(late, std::vector<size_t>{index});
}

}  // namespace
}  // namespace farpage
