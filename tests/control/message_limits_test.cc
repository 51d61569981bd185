#include "control/message_limits.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

TEST(MessageLimits, UnknownNumbersAreTakenForTheHarmlessOnes) {
  EXPECT_EQ(known(Code(), kCodes - 1), Code::kOtherEpoch);
  EXPECT_EQ(known(Code(), kCodes), Code::kProtocol);
  EXPECT_EQ(known(Code(), UINT32_MAX), Code::kProtocol);
  EXPECT_EQ(known(Access(), 2), Access::kRemoteWrite);
  for (const uint32_t other : {0u, 1u, 3u, 258u}) {
    EXPECT_EQ(known(Access(), other), Access::kRemoteRead) << other;
  }
  EXPECT_EQ(known(ChannelPurpose(), 1), ChannelPurpose::kStage);
  EXPECT_EQ(known(ChannelPurpose(), 257), ChannelPurpose::kRead);
  EXPECT_EQ(known(MemoryKind(), 1), MemoryKind::kCuda);
  EXPECT_EQ(known(MemoryKind(), 257), MemoryKind::kHost);
  EXPECT_EQ(known(int16_t(), INT16_MAX), INT16_MAX);
  EXPECT_EQ(known(int16_t(), INT16_MAX + 1), -1);
  EXPECT_EQ(known(int16_t(), INT32_MIN), -1);
}

}  // namespace
}  // namespace farpage
