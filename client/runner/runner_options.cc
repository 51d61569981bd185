#include "client/runner/runner_options.h"

#include <fmt/format.h>

namespace farpage {

std::vector<ConfigField> fields(RunnerOptions& options) {
  return {{"lanes", &options.lanes},
          {"queue_depth", &options.queue_depth},
          {"spin_us", &options.spin_us}};
}

Result<void> RunnerOptions::validate() const {
  if (lanes == 0 || lanes > kMostLanes) {
    return fail(Code::kInvalid,
                fmt::format("client.lanes is {}: choose 1 to {}", lanes, kMostLanes));
  }
  if (queue_depth == 0 || queue_depth > kMostDepth) {
    return fail(Code::kInvalid,
                fmt::format("client.queue_depth is {}: choose 1 to {}", queue_depth, kMostDepth));
  }
  if (spin_us > kMostSpinUs) {
    return fail(Code::kInvalid,
                fmt::format("client.spin_us is {}: choose 0 to {}", spin_us, kMostSpinUs));
  }
  return {};
}

}  // namespace farpage
