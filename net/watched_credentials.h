#pragma once

#include <string>

#include "base/status.h"
#include "net/greeting.h"
#include "net/tls.h"
#include "net/watched_secret.h"

namespace farpage {

// What is loaded as the functions without "watch" say, and again when a file has changed. No path
// of a token: none.
Result<WatchedSecret<SharedToken>> watch_token(const std::string& path);
Result<WatchedSecret<TlsContext>> watch_node_tls(const TlsFiles& files);
Result<WatchedSecret<TlsContext>> watch_client_tls(const TlsFiles& files);

}  // namespace farpage
