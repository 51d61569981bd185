#pragma once

#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "net/address/address.h"
#include "net/dial.h"
#include "net/listener.h"

namespace farpage {

// The table [security] of a node's configuration: who may connect over TCP.
struct NodeSecurity {
  std::string token_file;       // a secret that its clients have too
  std::string tls_certificate;  // with tls_key: every connection is under TLS
  std::string tls_key;
  std::string
      tls_client_ca;  // who must have signed the clients' certificates; empty: they show none
  bool allow_anyone = false;  // to listen beyond the loopback without token and client certificates

  // `listen`: what the node listens on. With tenants, clients need the token of one.
  Result<void> validate(const Address& listen, bool has_tenants = false) const;
  // These are read again when a file has changed, and so are a client's.
  Result<NodeCredentials> load() const;
  // For its own connections to the other nodes of its cluster, which have the same token and whose
  // certificates tls_client_ca has signed too.
  Result<ClientCredentials> load_as_client(const NodeCredentials& own) const;
};
std::vector<ConfigField> fields(NodeSecurity& security);

// The table [security] of a client's configuration.
struct ClientSecurity {
  std::string token_file = {};
  bool tls = false;
  std::string tls_ca = {};  // who must have signed the node's certificate; empty: the system's
  std::string tls_certificate = {};  // with tls_key: what the client shows, if the node asks
  std::string tls_key = {};

  Result<void> validate() const;
  Result<ClientCredentials> load() const;
};
std::vector<ConfigField> fields(ClientSecurity& security);

}  // namespace farpage
