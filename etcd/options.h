#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "net/address.h"
#include "net/tls.h"

namespace farpage::etcd {

// How an etcd is reached.
struct Access {
  std::vector<Address> endpoints;   // the members of one cluster
  std::shared_ptr<TlsContext> tls;  // null: without
  std::string user;                 // empty: etcd asks for none
  std::string password;
  std::string prefix;  // of all keys of the fleet: "/farpage/NAME/"
};

// The table [etcd]: where the fleet's register of epochs is.
struct EtcdOptions {
  std::string endpoints;  // "http://HOST:PORT,http://HOST:PORT"; empty: there is none
  std::string fleet = "farpage";
  std::string user;
  std::string password_file;
  std::string tls_ca;  // with https://; empty: those that this machine trusts
  std::string tls_certificate;
  std::string tls_key;

  bool is_given() const { return !endpoints.empty(); }
  Result<Access> load() const;
};
std::vector<ConfigField> fields(EtcdOptions& options);

}  // namespace farpage::etcd
