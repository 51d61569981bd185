#include "node/clients/memory_budget.h"

namespace farpage {

std::shared_ptr<MemoryBudget> MemoryBudget::make(std::string name, uint64_t bytes,
                                                 std::shared_ptr<MemoryBudget> whole) {
  return std::shared_ptr<MemoryBudget>(new MemoryBudget(std::move(name), bytes, std::move(whole)));
}

std::optional<MemoryBudget::Grant> MemoryBudget::take(uint64_t bytes) {
  if (!reserve(bytes)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  return Grant(shared_from_this(), bytes);
}

bool MemoryBudget::reserve(uint64_t bytes) {
  uint64_t granted = granted_bytes_.load();
  do {
    if (bytes > bytes_ - granted) return false;
  } while (!granted_bytes_.compare_exchange_weak(granted, granted + bytes));
  if (whole_ == nullptr || whole_->reserve(bytes)) return true;
  granted_bytes_.fetch_sub(bytes);
  return false;
}

void MemoryBudget::give_back(uint64_t bytes) {
  if (whole_ != nullptr) whole_->give_back(bytes);
  granted_bytes_.fetch_sub(bytes);
}

}  // namespace farpage
