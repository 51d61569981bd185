#pragma once

#include <openssl/ssl.h>

#include <string>

#include "base/status.h"
#include "net/security/tls.h"

namespace farpage {

// The certificate and its key. Refuses what cannot be read, does not belong together, has expired,
// is encrypted, or is a key that others than its owner may use.
Result<void> load_identity(SSL_CTX* context, const TlsFiles& files);
// The CA of the peer's certificate.
Result<void> load_ca(SSL_CTX* context, const std::string& file);

// For a person: the latest of the errors that OpenSSL keeps for this thread, which are cleared.
std::string last_openssl_error();

}  // namespace farpage
