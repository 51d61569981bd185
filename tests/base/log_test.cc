#include "base/log.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

TEST(WarningLimiter, MakesAMessageForALineThatIsWrittenAlone) {
  WarningLimiter limiter(3600 * kSecond);
  int made = 0;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10'000; ++i) {
    limiter.warn([&made] { return "message " + std::to_string(++made); });
  }
  const std::string written = testing::internal::GetCapturedStderr();
  EXPECT_EQ(made, 1);
  EXPECT_NE(written.find("message 1"), std::string::npos);
}

}  // namespace
}  // namespace farpage
