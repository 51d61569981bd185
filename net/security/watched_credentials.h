#pragma once

#include <string>

#include "base/status.h"
#include "net/secrets/watched_secret.h"
#include "net/security/greeting.h"
#include "net/security/tls.h"

namespace farpage {

// Loads as the functions without "watch" do, and again when a file has changed. No path of a token:
// none.
Result<WatchedSecret<SharedToken>> watch_token(const std::string& path);
Result<WatchedSecret<TlsContext>> watch_node_tls(const TlsFiles& files);
Result<WatchedSecret<TlsContext>> watch_client_tls(const TlsFiles& files);

}  // namespace farpage
