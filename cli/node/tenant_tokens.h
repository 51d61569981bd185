#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/secrets/secret_watch.h"
#include "net/secrets/watched_secret.h"
#include "net/security/greeting.h"
#include "node/tenants.h"

namespace farpage {

// The tokens that a node with tenants takes: no two are the same. They are read again together when
// one's file has changed; of one that cannot be used, or is another's, what was read before stays
// in use, and the others are taken.
struct TenantTokens {
  WatchedSecret<SharedToken> own;
  std::vector<WatchedSecret<SharedToken>> tenants;  // in their order
  std::unique_ptr<SecretWatch> watch;               // last: it sets the others

  // `own_path`: the node's own, security.token_file; empty: it has none.
  static Result<TenantTokens> load(const std::string& own_path,
                                   std::span<const TenantOptions> tenants);
};

}  // namespace farpage
