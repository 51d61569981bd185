// How soon a kernel starts after the host has moved a counter.

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "bench/gpu/parts.h"

namespace farpage::gpu_bench {

void time_waits(const Gpu& gpu) {
  constexpr int kTimes = 1000;
  constexpr unsigned kGreaterOrEqual = 0;
  const PinnedMemory words(gpu, 4096);
  auto* counter = reinterpret_cast<volatile uint64_t*>(words.data());
  auto* flag = reinterpret_cast<volatile uint64_t*>(words.data() + 256);
  uint64_t counter_address = words.device_address();
  uint64_t flag_address = words.device_address() + 256;
  const Stream stream(gpu);
  uint64_t value = 0;
  const auto spin_until = [](double until_us) {
    while (now_us() < until_us) {
    }
  };
  const auto time_each = [&](const char* name, const std::function<void()>& prepare,
                             const std::function<void()>& move) {
    std::vector<double> times_us;
    for (int i = 0; i < kTimes; ++i) {
      ++value;
      prepare();
      spin_until(now_us() + 30);
      const double begin_us = now_us();
      move();
      while (*flag != value) {
        if (now_us() - begin_us > 1e6) throw std::runtime_error("no kernel started within 1 s");
      }
      times_us.push_back(now_us() - begin_us);
      stream.wait();
    }
    std::ranges::sort(times_us);
    fmt::print("wait   {:48} median {:.2f} us, p90 {:.2f}, p99 {:.2f}, least {:.2f}\n", name,
               times_us[kTimes / 2], times_us[kTimes * 9 / 10], times_us[kTimes * 99 / 100],
               times_us[0]);
  };
  const auto set_flag = [&] {
    launch(gpu, stream, {"set_flag", 1, 1, 0}, {&flag_address, &value});
  };
  const auto move_counter = [&] { *counter = value; };
  for (const unsigned flags : {kGreaterOrEqual, 1u << 30}) {
    if (flags != 0 && gpu.attribute(98) != 1) {
      fmt::print("wait   no flush of remote writes on this GPU\n");
      continue;
    }
    time_each(
        flags == 0 ? "counter, cuStreamWaitValue64, kernel, flag seen" : "the same with FLUSH",
        [&] {
          gpu.check(gpu.driver().stream_wait_value(stream.get(), counter_address, value, flags),
                    "cuStreamWaitValue64");
          set_flag();
        },
        move_counter);
  }
  time_each(
      "counter, kernel that waits for it, flag seen",
      [&] {
        launch(gpu, stream, {"wait_then_set", 1, 1, 0}, {&counter_address, &flag_address, &value});
      },
      move_counter);
  time_each(
      "launch, kernel, flag seen", [] {}, set_flag);
}

}  // namespace farpage::gpu_bench
