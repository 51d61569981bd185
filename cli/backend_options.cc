#include "cli/backend_options.h"

#include <fmt/format.h>

#include <sstream>

namespace farpage {
namespace {

constexpr uint64_t kMaxSpinUs = 1'000'000;

Result<void> read_rdma(Config& config, RdmaOptions& options) {
  if (auto read = config.read("rdma", fields(options)); !read) return read;
  if (options.spin_us <= kMaxSpinUs) return {};
  return fail(Code::kInvalid,
              fmt::format("rdma.spin_us is {}: choose 0 to {}", options.spin_us, kMaxSpinUs));
}

template <typename Ucx>
Result<void> read_ucx(Config& config, ucx::UcxOptions& options) {
  Ucx table;
  if (auto read = config.read("ucx", fields(table)); !read) return read;
  options = std::move(table);
  return {};
}

}  // namespace

std::vector<ConfigField> fields(RdmaOptions& options) {
  return {{"devices", &options.devices}, {"spin_us", &options.spin_us}};
}

std::vector<ConfigField> fields(ClientUcx& options) {
  return {{"allow_emulated", &options.allow_emulated},
          {"transports", &options.transports},
          {"devices", &options.devices}};
}

std::vector<ConfigField> fields(NodeUcx& options) {
  return {{"trusted_clients", &options.trusted_clients},
          {"allow_emulated", &options.allow_emulated},
          {"transports", &options.transports},
          {"devices", &options.devices}};
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

Result<void> BackendOptions::read_node(Config& config) {
  return read_rdma(config, rdma).and_then([&] { return read_ucx<NodeUcx>(config, ucx); });
}

Result<void> BackendOptions::read_client(Config& config) {
  return read_rdma(config, rdma).and_then([&] { return read_ucx<ClientUcx>(config, ucx); });
}

}  // namespace farpage
