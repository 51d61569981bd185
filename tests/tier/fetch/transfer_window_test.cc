#include "tier/fetch/transfer_window.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

// A wire that takes `base_ns` for a read and carries `bytes_per_ns`, kept full by the window.
uint64_t settle(TransferWindow& window, uint64_t base_ns, double bytes_per_ns, int rounds) {
  for (int read = 0; read < rounds * 32; ++read) {
    if (read % 8 == 0) window.was_full();
    const double wire_ns = static_cast<double>(window.bytes()) / bytes_per_ns;
    window.ended(std::max(base_ns, static_cast<uint64_t>(wire_ns)));
  }
  return window.bytes();
}

// Its first read finds the wire empty.
TransferWindow fresh(uint64_t base_ns) {
  TransferWindow window;
  for (int read = 0; read < 32; ++read) window.ended(base_ns);
  return window;
}

TEST(TransferWindow, QueueOnAShortWireIsShort) {
  TransferWindow window = fresh(10 * kMicrosecond);
  const double bytes_per_ns = 8;
  const uint64_t bytes = settle(window, 10 * kMicrosecond, bytes_per_ns, 100);
  const auto queue_ns = static_cast<uint64_t>(static_cast<double>(bytes) / bytes_per_ns);
  EXPECT_GE(queue_ns, TransferWindow::kQueueNs / 2);
  EXPECT_LE(queue_ns, TransferWindow::kQueueNs * 5 / 4);
}

TEST(TransferWindow, LongWireIsKeptFull) {
  TransferWindow window = fresh(2 * kMillisecond);
  const double bytes_per_ns = 3;
  const uint64_t bytes = settle(window, 2 * kMillisecond, bytes_per_ns, 100);
  EXPECT_GE(static_cast<double>(bytes), 2e6 * bytes_per_ns);
  EXPECT_LE(static_cast<double>(bytes), 2.7e6 * bytes_per_ns);
}

TEST(TransferWindow, StaysWithinItsBounds) {
  TransferWindow slow = fresh(kMillisecond);
  EXPECT_EQ(settle(slow, kMillisecond, 0.001, 100), TransferWindow::kLeastBytes);
  TransferWindow fast = fresh(10 * kMillisecond);
  EXPECT_EQ(settle(fast, 10 * kMillisecond, 1'000, 100), TransferWindow::kMostBytes);
}

// Few pages under way say nothing about how many there could be.
TEST(TransferWindow, GrowsOnlyWhileItBinds) {
  TransferWindow window = fresh(kMillisecond);
  const uint64_t before = window.bytes();
  for (int read = 0; read < 3200; ++read) window.ended(kMillisecond);
  EXPECT_EQ(window.bytes(), before);
}

}  // namespace
}  // namespace farpage
