#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "net/address/address.h"
#include "net/listening_socket.h"
#include "net/runtime/asio_runtime.h"
#include "net/secrets/watched_secret.h"
#include "net/security/greeting.h"
#include "net/security/tls.h"

namespace farpage {

struct NodeCredentials {
  WatchedSecret<SharedToken> token;
  WatchedSecret<TlsContext> tls;  // none: without
  // No two the same, nor the same as `token`.
  std::vector<WatchedSecret<SharedToken>> tenants = {};
};

// Accepts TCP connections, and hands over those that have introduced themselves. A connection that
// does not do so in time is dropped, the oldest first when there are many: silent ones cost a
// bounded amount of memory and keep nobody out.
class Listener {
 public:
  using Handler = std::function<void(std::unique_ptr<Stream>, const Introduction&)>;
  struct Handlers {  // run on the listener's own thread
    Handler control;
    Handler data;
  };

  // `socket`: listen_on() gives it (net/listening_socket.h). Connections made meanwhile wait there.
  static std::unique_ptr<Listener> serve(ListeningSocket socket, NodeCredentials credentials,
                                         Handlers handlers);
  // Both at once. Refuses names that do not resolve and addresses that are in use.
  static Result<std::unique_ptr<Listener>> listen(const Address& address,
                                                  NodeCredentials credentials, Handlers handlers);
  // Once it has returned no handler runs.
  ~Listener();

  // With the port that was chosen.
  const Address& address() const { return address_; }

  class Acceptor;

 private:
  Listener(ListeningSocket socket, NodeCredentials credentials, Handlers handlers);

  Address address_;
  AsioRuntime loop_;
  std::shared_ptr<Acceptor> acceptor_;
};

}  // namespace farpage
