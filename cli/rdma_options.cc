#include "cli/rdma_options.h"

#include <fmt/format.h>

#include <sstream>

namespace farpage {
namespace {

constexpr uint64_t kMaxSpinUs = 1'000'000;

}  // namespace

std::vector<ConfigField> fields(RdmaOptions& options) {
  return {{"devices", &options.devices}, {"spin_us", &options.spin_us}};
}

Result<void> RdmaOptions::validate() const {
  if (spin_us <= kMaxSpinUs) return {};
  return fail(Code::kInvalid,
              fmt::format("rdma.spin_us is {}: choose 0 to {}", spin_us, kMaxSpinUs));
}

std::vector<std::string> RdmaOptions::device_list() const {
  std::vector<std::string> names;
  std::istringstream stream(devices);
  for (std::string name; std::getline(stream, name, ',');) {
    std::erase(name, ' ');
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace farpage
