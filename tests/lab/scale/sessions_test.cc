#include "lab/scale/sessions.h"

#include <gtest/gtest.h>

#include "lab/scale/heap.h"

namespace farpage {
namespace {

// A client that rests renews twice in a lease of 2 s, and a member four times.
TEST(Sessions, RenewalsAreOneASecondForEachRestingClient) {
  const Sessions few = measure_sessions(2, 4, 1);
  const Sessions more = measure_sessions(2, 24, 1);
  EXPECT_NEAR(more.renewals_per_node_and_s - few.renewals_per_node_and_s, 20, 1);
  EXPECT_LE(more.busiest_node, more.idlest_node + 25) << "each client renews at each node";
}

TEST(Sessions, MemoryOfAClientGrowsByTheNode) {
  if (heap_bytes() == 0) GTEST_SKIP() << "hardware: this allocator does not say what it holds";
  const double four = static_cast<double>(measure_sessions(4, 4, 1).heap_bytes_per_client);
  const double eight = static_cast<double>(measure_sessions(8, 4, 1).heap_bytes_per_client);
  const double sixteen = static_cast<double>(measure_sessions(16, 4, 1).heap_bytes_per_client);
  EXPECT_NEAR((sixteen - eight) / 8, (eight - four) / 4, 0.15 * (eight - four) / 4);
  EXPECT_GT((eight - four) / 4, 1'024);
}

}  // namespace
}  // namespace farpage
