#include "node/clients/client_budget.h"

#include <fmt/format.h>

namespace farpage {
namespace {

constexpr uint64_t kMemoryPageBytes = 4 * kKiB;

}  // namespace

Result<MemoryBudget::Grant> ClientBudget::take_staging(uint64_t bytes) {
  const uint64_t held = round_up(bytes, kMemoryPageBytes);
  if (held > shared_->bytes()) {
    return fail(Code::kInvalid,
                fmt::format("the client asks for {} of staging, and {} is {} for all clients "
                            "together: raise it at the node, or lower client.staging_bytes",
                            format_bytes(held), shared_->name(), format_bytes(shared_->bytes())));
  }
  if (auto grant = shared_->take(held)) return std::move(*grant);
  return fail(
      Code::kExhausted,
      fmt::format("the client asks for {} of staging, and other clients hold {} of the {} that {} "
                  "allows: raise it at the node, or lower client.staging_bytes; a client that only "
                  "reads needs none (client.staging_bytes = 0)",
                  format_bytes(held), format_bytes(shared_->granted_bytes()),
                  format_bytes(shared_->bytes()), shared_->name()));
}

Result<MemoryBudget::Grant> ClientBudget::take(uint64_t bytes, const char* what) {
  if (auto grant = own_->take(bytes)) return std::move(*grant);
  if (auto grant = shared_->take(bytes)) return std::move(*grant);
  return fail(
      Code::kExhausted,
      fmt::format("{} needs {} at the node; this client has used up the {} of its own, and clients "
                  "hold {} of the {} that {} allows: raise it at the node, or lower "
                  "client.staging_bytes",
                  what, format_bytes(bytes), format_bytes(kOwnBytesOfClient),
                  format_bytes(shared_->granted_bytes()), format_bytes(shared_->bytes()),
                  shared_->name()));
}

Result<void> check_promises(uint64_t budget_bytes, uint64_t clients, uint64_t left_bytes) {
  const uint64_t own_bytes = clients * kOwnBytesOfClient;
  if (own_bytes <= left_bytes && budget_bytes <= left_bytes - own_bytes) return {};
  return fail(Code::kExhausted,
              fmt::format("beside the pool, clients may make this node hold {} "
                          "(node.staging_budget_bytes) and {} (node.max_clients, {} each), and it "
                          "may take no more than {} (MemAvailable and its cgroup's limit): lower "
                          "one of these, choose a smaller pool_bytes, or raise the limit",
                          format_bytes(budget_bytes), format_bytes(own_bytes),
                          format_bytes(kOwnBytesOfClient), format_bytes(left_bytes)));
}

}  // namespace farpage
