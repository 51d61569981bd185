#include "base/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <type_traits>

#include "base/check.h"
#include "base/clock.h"

namespace farpage {
namespace {

static_assert(std::is_trivially_copyable_v<Status>);
static_assert(sizeof(Status) <= 16);

TEST(Status, IsOkByDefaultAndOnlyThen) {
  EXPECT_TRUE(Status{}.ok());
  const Status late{Code::kTimeout, ETIMEDOUT, "post"};
  EXPECT_FALSE(late.ok());
}

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  constexpr auto kLast = static_cast<int>(Code::kSystem);
  for (int code = 0; code <= kLast; ++code) names.insert(code_name(static_cast<Code>(code)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kLast) + 1);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_STREQ(code_name(static_cast<Code>(200)), "unknown");
}

TEST(Status, FailCarriesCodeAndSentence) {
  const Result<int> result = fail(Code::kExists, "the socket a.sock exists already");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kExists);
  EXPECT_EQ(result.error().message, "the socket a.sock exists already");
}

TEST(Status, FailErrnoChoosesTheCode) {
  const std::vector<std::pair<int, Code>> cases = {
      {ENOMEM, Code::kExhausted},
      {EMFILE, Code::kExhausted},
      {ENFILE, Code::kExhausted},
      {ENOSPC, Code::kExhausted},
      {EACCES, Code::kDenied},
      {EPERM, Code::kDenied},
      {ENOENT, Code::kNotFound},
      {EPIPE, Code::kUnavailable},
      {ECONNRESET, Code::kUnavailable},
      {ECONNREFUSED, Code::kUnavailable},
      {EIO, Code::kSystem},
  };
  for (const auto& [number, code] : cases) {
    const Result<void> result = fail_errno(number, "cannot listen");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code) << number;
    EXPECT_THAT(result.error().message, ::testing::StartsWith("cannot listen: "));
  }
}

TEST(Check, AbortsWithPlaceAndCondition) {
  FARPAGE_CHECK(true);
  EXPECT_DEATH(FARPAGE_CHECK(1 + 1 == 3), "status_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3");
}

TEST(Clock, NeverGoesBack) {
  uint64_t last = boottime_clock().now_ns();
  EXPECT_GT(last, 0u);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t now = boottime_clock().now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace farpage
