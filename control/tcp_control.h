#pragma once

#include <cstdint>
#include <memory>

#include "control/link.h"
#include "net/address/address.h"
#include "net/dial.h"
#include "net/runtime/asio_runtime.h"

namespace farpage {

class ServedClients;

// Control connections over TCP: the greeting of net/security/greeting.h, then frames as on a Unix
// socket, without descriptors.

// Each dial ends within `connect_ms`. Once a node has accepted one, the runtime's destructor waits
// for it.
std::unique_ptr<ControlDialer> make_tcp_dialer(AsioRuntime& runtime, const Address& address,
                                               const ClientCredentials& credentials,
                                               uint64_t connect_ms);

// To a node's address, whichever kind it is. A Unix socket needs no credentials.
Result<std::unique_ptr<ControlDialer>> make_dialer(AsioRuntime& runtime, const Address& address,
                                                   const ClientCredentials& credentials,
                                                   uint64_t connect_ms);

// Serves connections that a Listener (net/listener.h) has accepted, until it is destroyed: not on
// the runtime's own thread, and after the listener.
class TcpControlServer {
 public:
  TcpControlServer(AsioRuntime& runtime, ControlService& service, const ControlLimits& limits = {});
  ~TcpControlServer();

  // From any thread: Listener::Handlers::control.
  void take(std::unique_ptr<Stream> stream);

 private:
  AsioRuntime& runtime_;
  std::shared_ptr<ServedClients> clients_;
};

}  // namespace farpage
