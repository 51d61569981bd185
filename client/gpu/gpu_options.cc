#include "client/gpu/gpu_options.h"

#include <fmt/format.h>

namespace farpage {

std::vector<ConfigField> fields(GpuOptions& options) {
  return {{"bounce_bytes", &options.bounce_bytes},
          {"straight_bytes", &options.straight_bytes},
          {"check_copies", &options.check_copies}};
}

Result<void> GpuOptions::validate() const {
  if (bounce_bytes >= kLeastBounceBytes && bounce_bytes <= kMostBounceBytes) return {};
  return fail(Code::kInvalid,
              fmt::format("gpu.bounce_bytes is {}: choose 64KiB to 64GiB", bounce_bytes));
}

}  // namespace farpage
