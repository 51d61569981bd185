#include "backends/options.h"

#include "backends/backends.h"
#include "base/config/list_text.h"

namespace farpage {
namespace {

Result<void> read_each(Result<void> (*BackendTable::*read)(Config&, BackendOptions&),
                       Config& config, BackendOptions& options) {
  for (const BackendRegistration* backend : every_backend()) {
    if (!backend->table) continue;
    if (auto done = ((*backend->table).*read)(config, options); !done) return done;
  }
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
  auto names = split_list("rdma.devices", devices, ListOf::kWords)
                   .value_or(std::vector<std::string>());  // refused when it was read
  std::erase(names, "");
  return names;
}

Result<void> BackendOptions::read_node(Config& config) {
  return read_each(&BackendTable::read_node, config, *this);
}

Result<void> BackendOptions::read_client(Config& config) {
  return read_each(&BackendTable::read_client, config, *this);
}

}  // namespace farpage
