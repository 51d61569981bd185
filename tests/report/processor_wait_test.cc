#include "report/processor_wait.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/units.h"

namespace farpage {
namespace {

constexpr uint64_t kLongestNs = 100 * kSecond;

// From then on the thread runs on the processor that it runs on now.
void stay() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
}

TEST(ProcessorWait, CountsWhatAnotherThreadOnTheSameProcessorTakes) {
  uint64_t ran_ns = 0;
  uint64_t waited_ns = 0;
  uint64_t times = 0;  // it was given a processor; the first number may be 0 until it is taken away
  std::ifstream("/proc/thread-self/schedstat") >> ran_ns >> waited_ns >> times;
  if (times == 0) {
    GTEST_SKIP() << "this kernel does not count how long threads wait (CONFIG_SCHED_INFO)";
  }
  std::thread([] {
    stay();
    const ProcessorWait wait;
    std::atomic<bool> is_over = false;
    std::thread other([&] {
      while (!is_over) {
      }
    });
    const uint64_t end_ns = boottime_clock().now_ns() + kLongestNs;
    const auto is_enough = [&] {
      const ProcessorTime spent = wait.spent();
      return spent.waited_ns >= 20 * kMillisecond && spent.ran_ns >= 2 * kMillisecond;
    };
    while (!is_enough() && boottime_clock().now_ns() < end_ns) {
    }
    is_over = true;
    other.join();
    // Each from when it is made.
    const ProcessorTime later = ProcessorWait().spent();
    const ProcessorTime all = wait.spent();
    EXPECT_GE(all.waited_ns, 20 * kMillisecond + later.waited_ns);
    EXPECT_GE(all.ran_ns, kMillisecond + later.ran_ns);
  }).join();
}

}  // namespace
}  // namespace farpage
