#include "transport/transfer_counters.h"

#include <gtest/gtest.h>

#include <memory>

namespace farpage {
namespace {

TEST(TransferCounters, CountsArrivalsBeforeAnybodyAsks) {
  TransferCounters counters;
  const uint32_t transfer = make_immediate(7, 3);
  EXPECT_EQ(counters.arrived(transfer), 0u);
  counters.arrive(transfer);
  counters.arrive(transfer);
  EXPECT_EQ(counters.arrived(transfer), 2u);
}

TEST(TransferCounters, CountersDoNotTouchEachOther) {
  TransferCounters counters;
  for (uint32_t counter = 0; counter < kTransferCounters; ++counter) {
    counters.arrive(make_immediate(counter, 1));
  }
  for (uint32_t counter = 0; counter < kTransferCounters; ++counter) {
    EXPECT_EQ(counters.arrived(make_immediate(counter, 1)), 1u);
    EXPECT_EQ(counters.arrived(make_immediate(counter, 2)), 0u);
  }
}

TEST(TransferCounters, ANewTransferStartsAtZero) {
  TransferCounters counters;
  counters.arrive(make_immediate(0, 1));
  counters.arrive(make_immediate(0, 1));
  counters.arrive(make_immediate(0, 2));
  EXPECT_EQ(counters.arrived(make_immediate(0, 2)), 1u);
  EXPECT_EQ(counters.arrived(make_immediate(0, 1)), 0u);
}

TEST(TransferCounters, ALateArrivalOfAnOldTransferAdvancesNothing) {
  TransferCounters counters;
  counters.arrive(make_immediate(9, 5));
  counters.arrive(make_immediate(9, 4));
  counters.arrive(make_immediate(9, 1));
  EXPECT_EQ(counters.arrived(make_immediate(9, 5)), 1u);
  EXPECT_EQ(counters.arrived(make_immediate(9, 4)), 0u);
}

TEST(TransferCounters, GenerationsWrapAround) {
  TransferCounters counters;
  constexpr uint32_t kLast = kTransferGenerations - 1;
  counters.arrive(make_immediate(1, kTransferGenerations / 4));
  counters.arrive(make_immediate(1, kTransferGenerations / 2));
  counters.arrive(make_immediate(1, kLast));
  EXPECT_EQ(counters.arrived(make_immediate(1, kLast)), 1u);
  counters.arrive(make_immediate(1, 0));
  EXPECT_EQ(counters.arrived(make_immediate(1, 0)), 1u);
  counters.arrive(make_immediate(1, kLast));
  EXPECT_EQ(counters.arrived(make_immediate(1, kLast)), 0u);
  EXPECT_EQ(counters.arrived(make_immediate(1, 0)), 1u);
}

TEST(TransferCounters, TheImmediateHoldsBothParts) {
  EXPECT_EQ(make_immediate(kTransferCounters - 1, kTransferGenerations - 1), UINT32_MAX);
  EXPECT_EQ(make_immediate(2, 1), 0x102u);
}

}  // namespace
}  // namespace farpage
