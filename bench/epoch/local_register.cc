#include "bench/epoch/local_register.h"

namespace farpage {

class LocalRegister::Access final : public EpochRegister {
 public:
  Access(LocalRegister& all, Runtime& runtime) : all_(all), runtime_(runtime) {}

  void read(std::function<void(Result<RegisteredEpoch>)> done) override {
    runtime_.after(0, [&all = all_, done = std::move(done)] { done(all.current()); });
  }
  void replace(uint64_t /*current*/, Epoch next, std::function<void(Result<void>)> done) override {
    runtime_.after(0, [&all = all_, next = std::move(next), done = std::move(done)] {
      done(all.replace(next));
    });
  }
  void confirm(NodeId node, uint64_t number, std::function<void(Result<void>)> done) override {
    runtime_.after(0, [&all = all_, node, number, done = std::move(done)] {
      done(all.confirm(node, number));
    });
  }
  std::shared_ptr<void> when_changed(const std::function<void()>& changed) override {
    auto watcher = std::make_shared<std::function<void()>>(changed);
    const std::lock_guard lock(all_.mutex_);
    all_.watchers_.push_back({runtime_, watcher});
    return watcher;
  }

 private:
  LocalRegister& all_;
  Runtime& runtime_;
};

std::unique_ptr<EpochRegister> LocalRegister::access(Runtime& runtime) {
  return std::make_unique<Access>(*this, runtime);
}

void LocalRegister::tell() {
  for (const auto& [runtime, watcher] : watchers_) {
    runtime.after(0, [waiting = watcher] {
      if (const auto told = waiting.lock()) (*told)();
    });
  }
}

Result<void> LocalRegister::replace(Epoch next) {
  const std::lock_guard lock(mutex_);
  if (next.number != current_.epoch.number + 1) {
    return fail(Code::kAborted, "another epoch has come meanwhile");
  }
  current_ = {std::move(next), {}};
  tell();
  return {};
}

Result<void> LocalRegister::confirm(NodeId node, uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (number != current_.epoch.number) return fail(Code::kAborted, "it is another epoch");
  current_.confirmed.push_back(node);
  return {};
}

}  // namespace farpage
