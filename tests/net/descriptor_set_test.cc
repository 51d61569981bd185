#include "net/descriptor_set.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <array>

#include "net/stream/stream.h"

namespace farpage {
namespace {

class DescriptorSetTest : public testing::Test {
 protected:
  bool is_readable() const { return wait_for(set_.fd(), POLLIN, 0); }

  DescriptorSet set_ = DescriptorSet::make().value();
  // Always writable, and readable once something was written.
  const UniqueFd one_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  const UniqueFd other_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

TEST_F(DescriptorSetTest, IsReadableAsLongAsOneOfThemIsReady) {
  ASSERT_TRUE(set_.add(one_.get(), POLLIN));
  ASSERT_TRUE(set_.add(other_.get(), POLLIN));
  std::array<int, 2> ready = {};
  EXPECT_FALSE(is_readable());
  EXPECT_EQ(set_.ready(ready), 0u);
  ::eventfd_write(other_.get(), 1);
  for (int look = 0; look < 2; ++look) {
    EXPECT_TRUE(is_readable());
    ASSERT_EQ(set_.ready(ready), 1u);
    EXPECT_EQ(ready[0], other_.get());
  }
  eventfd_t count = 0;
  ::eventfd_read(other_.get(), &count);
  EXPECT_FALSE(is_readable());
}

TEST_F(DescriptorSetTest, WaitsForWhatItWasLastTold) {
  ASSERT_TRUE(set_.add(one_.get(), POLLIN));
  set_.change(one_.get(), POLLIN | POLLOUT);
  EXPECT_TRUE(is_readable());
  set_.change(one_.get(), POLLIN);
  EXPECT_FALSE(is_readable());
}

TEST_F(DescriptorSetTest, ForgetsWhatIsRemoved) {
  ASSERT_TRUE(set_.add(one_.get(), POLLOUT));
  EXPECT_TRUE(is_readable());
  set_.remove(one_.get());
  EXPECT_FALSE(is_readable());
}

TEST_F(DescriptorSetTest, SaysWhatCannotBeWaitedFor) {
  EXPECT_FALSE(set_.add(-1, POLLIN));
}

}  // namespace
}  // namespace farpage
