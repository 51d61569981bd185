#include "net/security/watched_credentials.h"

#include <fmt/format.h>
#include <openssl/x509.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace farpage {
namespace {

std::string describe(const TlsFiles& files) {
  if (files.certificate.empty()) {
    return files.ca.empty() ? "what this machine trusts (tls_ca)"
                            : fmt::format("the CA's certificate '{}'", files.ca);
  }
  return fmt::format("the certificate '{}' or its key{}", files.certificate,
                     files.ca.empty() ? "" : ", or the CA's");
}

std::vector<std::string> named(const TlsFiles& files) {
  std::vector<std::string> paths;
  for (const std::string& path : {files.certificate, files.key, files.ca}) {
    if (!path.empty()) paths.push_back(path);
  }
  return paths;
}

// OpenSSL looks into the machine's folder of certificates by itself, and reads the file once.
std::string trusted_by_this_machine() {
  const char* told = std::getenv(X509_get_default_cert_file_env());
  return told != nullptr ? told : X509_get_default_cert_file();
}

}  // namespace

Result<WatchedSecret<SharedToken>> watch_token(const std::string& path) {
  if (path.empty()) return WatchedSecret<SharedToken>();
  return WatchedSecret<SharedToken>::watch(fmt::format("the token in '{}'", path), {path}, [path] {
    return SharedToken::load(path).map(
        [](SharedToken token) { return std::make_shared<SharedToken>(std::move(token)); });
  });
}

Result<WatchedSecret<TlsContext>> watch_node_tls(const TlsFiles& files) {
  return WatchedSecret<TlsContext>::watch(describe(files), named(files),
                                          [files] { return TlsContext::for_node(files); });
}

Result<WatchedSecret<TlsContext>> watch_client_tls(const TlsFiles& files) {
  std::vector<std::string> paths = named(files);
  if (files.ca.empty()) paths.push_back(trusted_by_this_machine());
  return WatchedSecret<TlsContext>::watch(describe(files), std::move(paths),
                                          [files] { return TlsContext::for_client(files); });
}

}  // namespace farpage
