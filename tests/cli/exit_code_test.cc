#include "cli/exit_code.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

const Result<void> kNotWritten = fail(Code::kSystem, "cannot write to x: no space left");

TEST(ExitCode, OfFiguresThatAreWrittenIsThatOfTheBytes) {
  EXPECT_EQ(exit_code_of(0, {}).value(), kExitDone);
  EXPECT_EQ(exit_code_of(7, {}).error().message, "7 wrong bytes were served as ready");
}

TEST(ExitCode, WrongBytesAreToldThoughTheFiguresCouldNotBeWritten) {
  EXPECT_EQ(exit_code_of(0, kNotWritten).error().message, "cannot write to x: no space left");
  EXPECT_EQ(exit_code_of(7, kNotWritten).error().message,
            "7 wrong bytes were served as ready; and cannot write to x: no space left");
}

}  // namespace
}  // namespace farpage
