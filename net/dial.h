#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "net/address/address.h"
#include "net/secrets/watched_secret.h"
#include "net/security/greeting.h"
#include "net/security/tls.h"

namespace farpage {

// The credentials that a client shows and expects on every connection, as they are when it is made.
struct ClientCredentials {
  WatchedSecret<SharedToken> token;
  WatchedSecret<TlsContext> tls;  // none: without
};

// A TCP connection to a node that has accepted it: resolved, connected, under TLS if the
// credentials say so, introduced. Blocks until the deadline at most (boottime_clock); for set-up
// alone. `name`: whom the certificate must show, if not the address's host.
Result<std::unique_ptr<Stream>> dial(const Address& address, const ClientCredentials& credentials,
                                     const Introduction& introduction, uint64_t deadline_ns,
                                     const std::string& name = {});

// The rest of dial() once a host has accepted: TLS and the introduction, over `fd`.
Result<std::unique_ptr<Stream>> greet(UniqueFd fd, const Address& address,
                                      const ClientCredentials& credentials,
                                      const Introduction& introduction, uint64_t deadline_ns,
                                      const std::string& name = {});

// dial()'s error where none of the hosts has accepted; `last`: why the last one has not.
Error no_node_answers(const Address& address, const Error& last);

// The peer of a connection, in messages.
struct PeerWords {
  std::string_view kind;                // "memory node"
  std::string_view advice;              // what to do where none answers; a sentence's end
  std::string_view table = "security";  // of the configuration, in which TLS is described
};

// The same without the introduction: resolved, connected, under TLS if there is `tls`.
Result<std::unique_ptr<Stream>> connect_stream(const Address& address,
                                               const std::shared_ptr<TlsContext>& tls,
                                               const PeerWords& peer, uint64_t deadline_ns,
                                               const std::string& name = {});

// The node's end of a TCP connection, in numbers: the one behind the name that has answered.
Address reached(const Stream& stream);

}  // namespace farpage
