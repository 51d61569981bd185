#include "net/runtime/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace farpage {
namespace {

TEST(Thrown, ALimitThatWasInTheWayIsNamed) {
  const Error thread = fail_thrown(std::system_error(EAGAIN, std::generic_category())).value();
  EXPECT_EQ(thread.code, Code::kExhausted);
  EXPECT_THAT(thread.message, testing::HasSubstr("(ulimit -u)"));
  const std::system_error loop(EMFILE, std::generic_category(), "cannot open a loop");
  EXPECT_EQ(fail_thrown(loop).value().code, Code::kExhausted);
  EXPECT_EQ(fail_thrown(loop).value().message,
            "cannot open a loop: Too many open files; raise the limit of open descriptors "
            "(ulimit -n)");
}

}  // namespace
}  // namespace farpage
