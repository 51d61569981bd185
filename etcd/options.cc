#include "etcd/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/config/list_text.h"
#include "net/secrets/file_rights.h"
#include "net/security/watched_credentials.h"

namespace farpage::etcd {
namespace {

constexpr std::string_view kPlain = "http://";
constexpr std::string_view kSecure = "https://";
constexpr size_t kMaxNameBytes = 64;
constexpr std::string_view kOfTenant = "/tenants/";

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && text.find('/') == text.npos;
}

bool is_fleet(std::string_view text) {
  const size_t end = text.find(kOfTenant);
  if (end == text.npos) return is_name(text);
  return is_name(text.substr(0, end)) && is_name(text.substr(end + kOfTenant.size()));
}

Result<std::shared_ptr<std::string>> load_password(const std::string& path) {
  auto text = read_private_file(path, "the password",
                                "name a file (etcd.password_file) that holds "
                                "the password of etcd.user");
  if (!text) return tl::unexpected(text.error());
  text->resize(std::min(text->find_first_of("\r\n"), text->size()));
  if (text->empty()) {
    return fail(Code::kInvalid, fmt::format("'{}' (etcd.password_file) has no password: write the "
                                            "password of etcd.user in its first line",
                                            path));
  }
  return std::make_shared<std::string>(std::move(*text));
}

struct Endpoints {
  std::vector<Address> addresses;
  bool secure = false;
};

Result<Endpoints> read_endpoints(std::string_view list) {
  const auto entries = split_list("etcd.endpoints", list, ListOf::kWords);
  if (!entries) return tl::unexpected(entries.error());
  Endpoints read;
  for (std::string_view entry : *entries) {
    const bool secure = entry.starts_with(kSecure);
    if (!secure && !entry.starts_with(kPlain)) {
      return fail(
          Code::kInvalid,
          fmt::format("etcd.endpoints: '{}' is not http://HOST:PORT or https://HOST:PORT", entry));
    }
    if (!read.addresses.empty() && secure != read.secure) {
      return fail(Code::kInvalid, "etcd.endpoints: use https:// for all or for none");
    }
    read.secure = secure;
    entry.remove_prefix(secure ? kSecure.size() : kPlain.size());
    while (entry.ends_with('/')) entry.remove_suffix(1);
    auto address = parse_host_port(entry);
    if (!address) return fail(Code::kInvalid, "etcd.endpoints: " + address.error().message);
    read.addresses.push_back(std::move(*address));
  }
  if (read.addresses.empty()) {
    return fail(Code::kInvalid, "etcd.endpoints is empty: write http://HOST:PORT");
  }
  return read;
}

}  // namespace

std::vector<ConfigField> fields(EtcdOptions& options) {
  return {
      {"endpoints", &options.endpoints}, {"fleet", &options.fleet},
      {"user", &options.user},           {"password_file", &options.password_file},
      {"tls_ca", &options.tls_ca},       {"tls_certificate", &options.tls_certificate},
      {"tls_key", &options.tls_key},
  };
}

Result<Access> EtcdOptions::load() const {
  auto endpoints_read = read_endpoints(endpoints);
  if (!endpoints_read) return tl::unexpected(endpoints_read.error());
  if (!is_fleet(fleet)) {
    return fail(Code::kInvalid,
                fmt::format("etcd.fleet: '{}' is neither a name of 1 to {} bytes without a '/', "
                            "nor a tenant's fleet, such as farpage{}NAME",
                            fleet, kMaxNameBytes, kOfTenant));
  }
  Access access;
  access.endpoints = std::move(endpoints_read->addresses);
  access.prefix = fmt::format("/farpage/{}/", fleet);
  access.user = user;
  if (user.empty() != password_file.empty()) {
    return fail(Code::kInvalid,
                "etcd.user and etcd.password_file belong together: give both or none");
  }
  if (!user.empty()) {
    auto password = WatchedSecret<std::string>::watch(
        fmt::format("etcd's password in '{}'", password_file), {password_file},
        [path = password_file] { return load_password(path); });
    if (!password) return tl::unexpected(password.error());
    access.password = std::move(*password);
  }
  const bool names_tls = !tls_ca.empty() || !tls_certificate.empty() || !tls_key.empty();
  if (!endpoints_read->secure) {
    if (!names_tls) return access;
    return fail(Code::kInvalid,
                "etcd.tls_ca, tls_certificate or tls_key is given, and etcd.endpoints are http://: "
                "write https://, or leave them out");
  }
  if (tls_certificate.empty() != tls_key.empty()) {
    return fail(Code::kInvalid,
                "etcd.tls_certificate and etcd.tls_key belong together: give both or none");
  }
  auto context = watch_client_tls({tls_certificate, tls_key, tls_ca});
  if (!context) return tl::unexpected(context.error());
  access.tls = std::move(*context);
  return access;
}

std::string fleet_of_tenant(const std::string& fleet, const std::string& tenant) {
  return fmt::format("{}{}{}", fleet, kOfTenant, tenant);
}

}  // namespace farpage::etcd
