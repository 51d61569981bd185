#include "transport/fabric_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "net/runtime/asio_runtime.h"
#include "transport/shm/shm_fabric.h"

namespace farpage {
namespace {

TEST(FabricGate, ClosingWaitsForTheWorkInsideAndLetsNoMoreIn) {
  AsioRuntime runtime;
  auto fabric = shm::make_shm_fabric();
  FabricGate gate(*fabric);
  std::atomic<int> inside = 0;
  std::atomic<bool> go_on = false;
  std::atomic<bool> closed = false;
  // Two at a time: one that connects is in no other's way.
  for (int i = 0; i < 2; ++i) {
    runtime.offload(JobClass::kConnect, [&] {
      const auto result = gate.pass([&](Fabric& lent) -> Result<bool> {
        ++inside;
        runtime.notify();
        runtime.wait_until(kNever, [&] { return go_on.load(); });
        EXPECT_EQ(lent.capabilities().backend, "shm");
        EXPECT_FALSE(closed);
        --inside;
        return true;
      });
      EXPECT_TRUE(result.has_value());
    });
  }
  const uint64_t deadline = runtime.clock().now_ns() + 20 * kSecond;
  ASSERT_TRUE(runtime.wait_until(deadline, [&] { return inside == 2; }));
  std::thread closing([&] {
    gate.close();
    closed = true;
    EXPECT_EQ(inside, 0);
    fabric.reset();
  });
  EXPECT_FALSE(runtime.wait_until(runtime.clock().now_ns() + 20 * kMillisecond,
                                  [&] { return closed.load(); }));
  go_on = true;
  runtime.notify();
  closing.join();
  const auto late = gate.pass([&](Fabric&) -> Result<bool> { return true; });
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, Code::kAborted);
}

}  // namespace
}  // namespace farpage
