#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sim/network/world.h"
#include "sim/sim_register.h"

namespace farpage {

// One register's capacity, shared by all its readers: reads wait for each other, and fail when they
// would wait longer than `patience_ns`. Counts them.
class RegisterCapacity {
 public:
  RegisterCapacity(sim::World& world, uint64_t read_busy_ns, uint64_t patience_ns)
      : world_(world), read_busy_ns_(read_busy_ns), patience_ns_(patience_ns) {}

  // When a read that is sent now will be answered; nothing: too late.
  std::optional<uint64_t> take() {
    ++reads_;
    const uint64_t now = world_.now_ns();
    const uint64_t begins_ns = std::max(free_ns_, now);
    if (begins_ns - now > patience_ns_) return std::nullopt;
    free_ns_ = begins_ns + read_busy_ns_;
    return free_ns_ - now;
  }

  // … every watcher.
  void tell() {
    std::erase_if(hooks_, [](const auto& hook) { return hook.expired(); });
    for (const auto& waiting : std::vector(hooks_)) {
      if (const auto hook = waiting.lock()) (*hook)();
    }
  }
  std::shared_ptr<void> add_hook(const std::function<void()>& changed) {
    auto hook = std::make_shared<std::function<void()>>(changed);
    hooks_.push_back(hook);
    return hook;
  }

  uint64_t reads() const { return reads_; }
  sim::World& world() { return world_; }
  uint64_t patience_ns() const { return patience_ns_; }

 private:
  sim::World& world_;
  const uint64_t read_busy_ns_;
  const uint64_t patience_ns_;
  uint64_t free_ns_ = 0;
  uint64_t reads_ = 0;
  std::vector<std::weak_ptr<std::function<void()>>> hooks_;
};

// One host's way to a register of that capacity.
class BusyRegister final : public EpochRegister {
 public:
  BusyRegister(std::unique_ptr<EpochRegister> behind, RegisterCapacity& capacity, bool watches)
      : behind_(std::move(behind)), capacity_(capacity), watches_(watches) {}

  void read(std::function<void(Result<RegisteredEpoch>)> done) override {
    const auto wait_ns = capacity_.take();
    if (!wait_ns) {
      return capacity_.world().after(capacity_.patience_ns(), [done = std::move(done)] {
        done(fail(Code::kTimeout, "the register has not answered in time"));
      });
    }
    capacity_.world().after(*wait_ns,
                            [&behind = *behind_, done = std::move(done)] { behind.read(done); });
  }
  void replace(uint64_t current, Epoch next, std::function<void(Result<void>)> done) override {
    behind_->replace(current, std::move(next), std::move(done));
  }
  void confirm(NodeId node, uint64_t number, std::function<void(Result<void>)> done) override {
    behind_->confirm(node, number, std::move(done));
  }
  std::shared_ptr<void> when_changed(const std::function<void()>& changed) override {
    return watches_ ? capacity_.add_hook(changed) : nullptr;
  }

 private:
  std::unique_ptr<EpochRegister> behind_;
  RegisterCapacity& capacity_;
  const bool watches_;
};

}  // namespace farpage
