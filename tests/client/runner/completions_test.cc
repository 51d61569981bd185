#include "client/runner/completions.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>

namespace farpage {
namespace {

bool is_readable(const Completions& completions) {
  pollfd look = {completions.descriptor(), POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

TEST(Completions, TheDescriptorIsReadableWhileTagsWait) {
  const auto completions = Completions::make().value();
  EXPECT_FALSE(is_readable(*completions));
  for (uint64_t tag = 1; tag <= 3; ++tag) completions->add(tag);
  EXPECT_TRUE(is_readable(*completions));
  std::array<uint64_t, 2> tags = {};
  EXPECT_EQ(completions->take(tags), 2u);
  EXPECT_EQ(tags[0], 1u);
  EXPECT_EQ(tags[1], 2u);
  EXPECT_TRUE(is_readable(*completions));
  EXPECT_EQ(completions->take({}), 0u);
  EXPECT_TRUE(is_readable(*completions));
  EXPECT_EQ(completions->take(tags), 1u);
  EXPECT_EQ(tags[0], 3u);
  EXPECT_FALSE(is_readable(*completions));
  EXPECT_EQ(completions->take(tags), 0u);
  completions->add(4);
  EXPECT_TRUE(is_readable(*completions));
}

}  // namespace
}  // namespace farpage
