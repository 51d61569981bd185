#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "pagetable/epoch_register.h"

namespace farpage {

// A register of epochs in this process, for a bench that wants no etcd's times in its figures.
// Thread-safe; outlives what access() returns.
class LocalRegister {
 public:
  explicit LocalRegister(Epoch first) { current_.epoch = std::move(first); }

  // For one node or client, which `runtime` runs.
  std::unique_ptr<EpochRegister> access(Runtime& runtime);

  RegisteredEpoch current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  // kAborted: `next` does not follow the current epoch.
  Result<void> replace(Epoch next);
  Result<void> confirm(NodeId node, uint64_t number);

 private:
  class Access;
  struct Watcher {
    Runtime& runtime;
    std::weak_ptr<std::function<void()>> changed;
  };
  void tell();  // with the mutex

  mutable std::mutex mutex_;
  RegisteredEpoch current_;
  std::vector<Watcher> watchers_;
};

}  // namespace farpage
