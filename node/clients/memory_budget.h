#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace farpage {

// So many bytes that clients can make a node hold. Code that makes memory for a client takes its
// bytes here first, and they come back when the grant ends: so a grant ends after its memory. A
// budget may be a part of another one, which is then asked too. Thread-safe, as memory ends on any
// thread.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  // Bytes that were taken; given back when it goes.
  class Grant {
   public:
    Grant() = default;  // of nothing
    Grant(Grant&& other) noexcept
        : from_(std::move(other.from_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Grant& operator=(Grant&& other) noexcept {
      std::swap(from_, other.from_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Grant() {
      if (from_ != nullptr) from_->give_back(bytes_);
    }

    uint64_t bytes() const { return bytes_; }

   private:
    friend class MemoryBudget;
    Grant(std::shared_ptr<MemoryBudget> from, uint64_t bytes)
        : from_(std::move(from)), bytes_(bytes) {}

    std::shared_ptr<MemoryBudget> from_;
    uint64_t bytes_ = 0;
  };

  // `name`: the setting that sizes it. `whole`: of which it is a part; null: of none.
  static std::shared_ptr<MemoryBudget> make(std::string name, uint64_t bytes,
                                            std::shared_ptr<MemoryBudget> whole = nullptr);

  // Nothing, and one refusal more: they do not fit, here or in the whole.
  std::optional<Grant> take(uint64_t bytes);

  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t granted_bytes() const { return granted_bytes_.load(std::memory_order_relaxed); }
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  MemoryBudget(std::string name, uint64_t bytes, std::shared_ptr<MemoryBudget> whole)
      : name_(std::move(name)), bytes_(bytes), whole_(std::move(whole)) {}

  bool reserve(uint64_t bytes);
  void give_back(uint64_t bytes);

  const std::string name_;
  const uint64_t bytes_;
  const std::shared_ptr<MemoryBudget> whole_;
  std::atomic<uint64_t> granted_bytes_ = 0;
  std::atomic<uint64_t> refused_ = 0;
};

}  // namespace farpage
