#pragma once

#include <memory>

#include "net/dial.h"
#include "net/security/greeting.h"
#include "transport/fabric.h"

namespace farpage::tcp {

struct TcpOptions {
  ClientCredentials credentials = {};  // for connect()
  uint64_t io_threads = 0;             // for accept(), which needs at least one
};

// Any network. The target's I/O threads serve reads and writes from registered memory, without a
// word to its owner; every address is checked against the registrations.
class TcpFabric : public Fabric {
 public:
  // The targets' connections, as a Listener hands them over. Thread-safe.
  virtual void accept(std::unique_ptr<Stream> stream, const Introduction& introduction) = 0;
};

Result<std::unique_ptr<TcpFabric>> make_tcp_fabric(const TcpOptions& options);

}  // namespace farpage::tcp
