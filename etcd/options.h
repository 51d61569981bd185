#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "net/address/address.h"
#include "net/secrets/watched_secret.h"
#include "net/security/tls.h"

namespace farpage::etcd {

// How an etcd is reached.
struct Access {
  std::vector<Address> endpoints;  // the members of one cluster
  WatchedSecret<TlsContext> tls;   // none: without
  std::string user;                // empty: etcd asks for none
  WatchedSecret<std::string> password;
  std::string prefix;  // of all keys of the fleet: "/farpage/FLEET/"
};

// The table [etcd]: where the fleet's register of epochs is.
struct EtcdOptions {
  std::string endpoints = {};     // "http://HOST:PORT,http://HOST:PORT"; empty: there is none
  std::string fleet = "farpage";  // or fleet_of_tenant()
  std::string user = {};
  std::string password_file = {};
  std::string tls_ca = {};  // with https://; empty: those that this machine trusts
  std::string tls_certificate = {};
  std::string tls_key = {};

  bool is_given() const { return !endpoints.empty(); }
  // Its files are read again when they change.
  Result<Access> load() const;
};
std::vector<ConfigField> fields(EtcdOptions& options);

// A tenant's own among the nodes of a fleet. No fleet has such a name, for theirs have no '/'.
std::string fleet_of_tenant(const std::string& fleet, const std::string& tenant);

}  // namespace farpage::etcd
