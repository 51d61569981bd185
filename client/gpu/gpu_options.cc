#include "client/gpu/gpu_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace farpage {

std::vector<ConfigField> fields(GpuOptions& options) {
  return {{"bounce_bytes", &options.bounce_bytes},
          {"straight_bytes", &options.straight_bytes},
          {"landing", &options.landing},
          {"check_copies", &options.check_copies}};
}

Result<void> GpuOptions::validate() const {
  if (bounce_bytes < kLeastBounceBytes || bounce_bytes > kMostBounceBytes) {
    return fail(Code::kInvalid,
                fmt::format("gpu.bounce_bytes is {}: choose 64KiB to 64GiB", bounce_bytes));
  }
  constexpr std::array kLandings = {"auto", "dma-buf", "peermem", "host"};
  if (std::ranges::find(kLandings, landing) != kLandings.end()) return {};
  return fail(Code::kInvalid,
              fmt::format("gpu.landing is \"{}\": choose auto, dma-buf, peermem or host", landing));
}

}  // namespace farpage
