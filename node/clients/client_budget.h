#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/units.h"
#include "node/clients/memory_budget.h"

namespace farpage {

// Memory that each client has of its own: enough for its touch log and for some waiting requests,
// so that a client that only reads gets in when the budget that all share is used up.
inline constexpr uint64_t kOwnBytesOfClient = 256 * kKiB;

// Memory that one client can take at the node: its own bytes, which no other client takes, and the
// budget that all share.
class ClientBudget {
 public:
  // `own`: of all clients together, so that those who come and go faster than their memory ends
  // have no more of it.
  ClientBudget(std::shared_ptr<MemoryBudget> shared, std::shared_ptr<MemoryBudget> own)
      : shared_(std::move(shared)),
        own_(MemoryBudget::make("", kOwnBytesOfClient, std::move(own))) {}

  // For staging, which none has of its own.
  Result<MemoryBudget::Grant> take_staging(uint64_t bytes);
  // `what`: that needs it, for people.
  Result<MemoryBudget::Grant> take(uint64_t bytes, const char* what);

 private:
  std::shared_ptr<MemoryBudget> shared_;
  std::shared_ptr<MemoryBudget> own_;
};

// Whether a process whose pools are there, and which may take `left_bytes` more, can keep what it
// promises to so many clients.
Result<void> check_promises(uint64_t budget_bytes, uint64_t clients, uint64_t left_bytes);

}  // namespace farpage
