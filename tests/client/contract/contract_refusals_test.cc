// Fetches that do not begin: nothing lands, and those beside them notice nothing.

#include <gmock/gmock.h>

#include <array>

#include "tests/client/contract/fetch_contract.h"

namespace farpage {
namespace {

using FetchRefusals = FetchContract;
INSTANTIATE_TEST_SUITE_P(Ways, FetchRefusals, every_way(), contract_name);

TEST_P(FetchRefusals, OfPagesThatWouldLandInTheSameBytes) {
  put_some(2);
  const Region region = landing(2 * kPageBytes);
  for (const size_t second : {size_t{0}, size_t{1}, kPageBytes - 1}) {
    const std::array requests = {PageRequest{key(0), 0, region.slice(0, kPageBytes)},
                                 PageRequest{key(1), 0, region.slice(second, kPageBytes)}};
    const auto refused = tier_->fetch(requests, kTimeoutUs);
    ASSERT_FALSE(refused) << second;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_THAT(refused.error().message, testing::StartsWith("pages 0 and 1 of the fetch"));
  }
  EXPECT_TRUE(is_untouched(region.slice(0, region.bytes())));
  EXPECT_TRUE(are_ready(fetched(fetches_to(region))));
}

TEST_P(FetchRefusals, OfHedges) {
  const Region region = landing(kPageBytes);
  const auto refused = tier_->fetch(fetches_to(region), kTimeoutUs, {.hedge = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalid);
}

TEST_P(FetchRefusals, BeyondTheQueueUntilATicketIsLetGo) {
  tier_.reset();
  OpenOptions small = options();
  small.lanes = {.lanes = 1, .queue_depth = 2};
  tier_ = open(small, wrap());
  put(0);
  const Region region = landing(kPageBytes);
  Ticket first = fetched(fetches_to(region));
  const Ticket second = fetched(fetches_to(region));
  const auto refused = tier_->fetch(fetches_to(region), kTimeoutUs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  first = {};
  EXPECT_TRUE(are_ready(fetched(fetches_to(region))));
}

}  // namespace
}  // namespace farpage
