#include "net/security_options.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include "net/security/watched_credentials.h"

namespace farpage {
namespace {

Result<void> check_pair(const std::string& certificate, const std::string& key) {
  if (certificate.empty() == key.empty()) return {};
  return fail(Code::kInvalid,
              "security.tls_certificate and security.tls_key belong together: give both or none");
}

// Of names, one alone is known to stay on this machine.
bool is_loopback(const std::string& host) {
  in_addr ipv4;
  in6_addr ipv6;
  if (::inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return ntohl(ipv4.s_addr) >> 24 == 127;
  if (::inet_pton(AF_INET6, host.c_str(), &ipv6) == 1) return IN6_IS_ADDR_LOOPBACK(&ipv6);
  return host == "localhost";
}

}  // namespace

std::vector<ConfigField> fields(NodeSecurity& security) {
  return {
      {"token_file", &security.token_file},     {"tls_certificate", &security.tls_certificate},
      {"tls_key", &security.tls_key},           {"tls_client_ca", &security.tls_client_ca},
      {"allow_anyone", &security.allow_anyone},
  };
}

std::vector<ConfigField> fields(ClientSecurity& security) {
  return {
      {"token_file", &security.token_file}, {"tls", &security.tls},
      {"tls_ca", &security.tls_ca},         {"tls_certificate", &security.tls_certificate},
      {"tls_key", &security.tls_key},
  };
}

Result<void> NodeSecurity::validate(const Address& listen, bool has_tenants) const {
  if (!tls_client_ca.empty() && tls_certificate.empty()) {
    return fail(Code::kInvalid,
                "security.tls_client_ca needs TLS: give security.tls_certificate and "
                "security.tls_key too");
  }
  if (listen.is_tcp() && !has_tenants && token_file.empty() && tls_client_ca.empty() &&
      !allow_anyone && !is_loopback(listen.host)) {
    return fail(
        Code::kInvalid,
        fmt::format("on {} anybody could read and put pages: name a token with --token-file or "
                    "security.token_file (made with 'openssl rand -hex 32'), or name the CA of the "
                    "clients' certificates with security.tls_client_ca, or set "
                    "security.allow_anyone = true where the network is trusted",
                    format_address(listen)));
  }
  return check_pair(tls_certificate, tls_key);
}

Result<NodeCredentials> NodeSecurity::load() const {
  auto token = watch_token(token_file);
  if (!token) return tl::unexpected(token.error());
  NodeCredentials credentials = {std::move(*token), nullptr};
  if (tls_certificate.empty()) return credentials;
  auto context = watch_node_tls({tls_certificate, tls_key, tls_client_ca});
  if (!context) return tl::unexpected(context.error());
  credentials.tls = std::move(*context);
  return credentials;
}

Result<ClientCredentials> NodeSecurity::load_as_client(const NodeCredentials& own) const {
  auto credentials =
      ClientSecurity{"", !tls_certificate.empty(), tls_client_ca, tls_certificate, tls_key}.load();
  if (credentials) credentials->token = own.token;
  return credentials;
}

Result<void> ClientSecurity::validate() const {
  if (!tls && (!tls_ca.empty() || !tls_certificate.empty() || !tls_key.empty())) {
    return fail(Code::kInvalid,
                "security.tls_ca or security.tls_certificate is given, and security.tls is not "
                "true: set it, or leave them out");
  }
  return check_pair(tls_certificate, tls_key);
}

Result<ClientCredentials> ClientSecurity::load() const {
  auto token = watch_token(token_file);
  if (!token) return tl::unexpected(token.error());
  ClientCredentials credentials = {std::move(*token), nullptr};
  if (!tls) return credentials;
  auto context = watch_client_tls({tls_certificate, tls_key, tls_ca});
  if (!context) return tl::unexpected(context.error());
  credentials.tls = std::move(*context);
  return credentials;
}

}  // namespace farpage
