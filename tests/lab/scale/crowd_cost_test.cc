#include "lab/scale/crowd_cost.h"

#include <gtest/gtest.h>

namespace farpage {
namespace {

// It ends the program where the node turns one of them away, forgets one, or cannot serve the busy
// one.
TEST(CrowdCost, TenThousandClientsAreThereBesideABusyOne) {
  const CrowdCost cost = measure_crowd(10'000, 1);
  EXPECT_EQ(cost.clients, 10'000u);
  EXPECT_GT(cost.renewal_ns, 0u);
  EXPECT_GT(cost.put_ns, 0u);
}

}  // namespace
}  // namespace farpage
