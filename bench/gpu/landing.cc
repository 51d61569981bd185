#include "bench/gpu/landing.h"

#include <fmt/core.h>

namespace farpage::gpu_bench {
namespace {

double speed_of(uint64_t bytes, double time_us) {
  return static_cast<double>(bytes) / time_us / 1000;
}

}  // namespace

void tell_row(const char* part, const std::string& name, const Times& times, double baseline,
              const std::string& more) {
  const double speed = speed_of(kBatches * kBatchBytes, times.median_us);
  fmt::print("{} {:44} {:9.1f} us ({:.1f}-{:.1f}) {:6.2f} GB/s = {:.3f} of the copy{}\n", part,
             name, times.median_us, times.least_us, times.most_us, speed, speed / baseline, more);
}

double time_plain_copy(const Gpu& gpu, const char* part, const Landing& landing,
                       const PinnedMemory& pinned) {
  const Stream stream(gpu);
  const auto issue = [&](uint32_t, uint32_t ring, const Event& event) {
    gpu.check(gpu.driver().copy_to_device(landing.staged.at(ring * kBatchSlotBytes),
                                          pinned.data() + ring * kBatchSlotBytes, kBatchBytes,
                                          stream.get()),
              "cuMemcpyHtoDAsync");
    event.record(stream);
  };
  const Times times = time_batches(gpu, issue, [](uint32_t, uint32_t) {});
  const double speed = speed_of(kBatches * kBatchBytes, times.median_us);
  fmt::print("{} {:44} {:9.1f} us ({:.1f}-{:.1f}) {:6.2f} GB/s\n", part,
             "one cuMemcpyHtoDAsync a batch, pinned", times.median_us, times.least_us,
             times.most_us, speed);
  return speed;
}

}  // namespace farpage::gpu_bench
