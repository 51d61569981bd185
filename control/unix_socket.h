#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "control/bound_unix_socket.h"
#include "control/link.h"
#include "net/runtime/asio_runtime.h"

namespace farpage {

// Control connections over a Unix socket: frames as in docs/formats/control.md, descriptors beside
// them.

// Refuses paths that are too long for a Unix socket. `path` may not exist yet.
Result<std::unique_ptr<ControlDialer>> make_unix_dialer(AsioRuntime& runtime,
                                                        const std::string& path);

// Accepts connections for a service until it is destroyed (not on the runtime's own thread).
class ControlServer {
 public:
  virtual ~ControlServer() = default;
};

std::unique_ptr<ControlServer> serve_unix(AsioRuntime& runtime, BoundUnixSocket socket,
                                          ControlService& service,
                                          const ControlLimits& limits = {});
// Binds and serves.
Result<std::unique_ptr<ControlServer>> listen_unix(AsioRuntime& runtime, const std::string& path,
                                                   ControlService& service,
                                                   const ControlLimits& limits = {});

}  // namespace farpage
