#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/options.h"
#include "base/config/config.h"
#include "base/status.h"
#include "doctor/finding/backend_check.h"
#include "net/dial.h"
#include "net/security/greeting.h"
#include "net/stream/stream.h"
#include "transport/fabric.h"

namespace farpage {

// At what addresses a backend's nodes can be.
enum class NodesAt : uint8_t {
  kAnyAddress,  // it leads to the control plane alone: bytes take a way of their own
  kUnixSocket,
  kTcpPort,
};

// Keys, as --set takes them, and values.
using BackendSettings = std::vector<std::pair<std::string, std::string>>;

// A backend's table of the configuration.
struct BackendTable {
  // A node's, and a client's. The errors are Config's, or name the key.
  Result<void> (*read_node)(Config& config, BackendOptions& options);
  Result<void> (*read_client)(Config& config, BackendOptions& options);
  // For a node that this program starts for itself alone.
  BackendSettings (*settings_of_own_node)(const BackendOptions& options);
};

// The parameters of a fabric, for a node or for a client.
struct FabricOptions {
  const BackendOptions& backends;
  const ClientCredentials& credentials;  // for its own connections to nodes
  uint64_t io_threads = 0;               // for take_data; a client has no use for any
};

// A backend's fabric, and who takes connections for it.
struct FabricOfBackend {
  std::unique_ptr<Fabric> fabric;
  // Takes who connects to the node's port for data; empty: nobody may. Thread-safe, and not to be
  // called once the fabric is gone.
  std::function<void(std::unique_ptr<Stream>, const Introduction&)> take_data = {};
};

// All that the program needs to know of a backend. There is one of these for each, in a file that
// has the backend's name; backends.cc has the table of them.
struct BackendRegistration {
  // Its needs of the host, and whether the host meets them.
  const doctor::BackendCheck* host;
  // The option of CMake that builds it; null: every build has it.
  const char* cmake_option = nullptr;
  NodesAt nodes_at = NodesAt::kAnyAddress;
  // Why its nodes have no tenants, and what to do about that; null: they may have some.
  const char* why_no_tenants = nullptr;
  std::optional<BackendTable> table = {};
  // Tells the doctor what to check beyond `host`; null: nothing.
  void (*tell_doctor)(const BackendOptions& options, doctor::Wanted& wanted) = nullptr;
  // Null: this build does not have it. May block; any thread. Fails as make_NAME_fabric does.
  Result<FabricOfBackend> (*make)(const FabricOptions& options) = nullptr;

  std::string_view name() const { return host->name; }
  bool is_built() const { return make != nullptr; }
};

extern const BackendRegistration kShmBackend;
extern const BackendRegistration kTcpBackend;
extern const BackendRegistration kVerbsBackend;
extern const BackendRegistration kUcxBackend;

}  // namespace farpage
