#include "lab/paging/all_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>

namespace farpage::paging {
namespace {

TEST(AllRuns, ARunThatFindsNoMemoryFailsAndTheOthersAreMade) {
  std::atomic<size_t> made = 0;
  const auto run = [&](size_t number) -> Result<void> {
    if (number == 3) throw std::bad_alloc();
    ++made;
    return {};
  };
  const auto all = make_all_runs(8, run, [](size_t) {});
  ASSERT_FALSE(all.has_value());
  EXPECT_EQ(all.error().code, Code::kExhausted);
  EXPECT_THAT(all.error().message, testing::HasSubstr("no memory left"));
  EXPECT_EQ(made, 7u);
}

}  // namespace
}  // namespace farpage::paging
