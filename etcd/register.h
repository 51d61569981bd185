#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/runtime.h"
#include "etcd/client.h"
#include "etcd/records.h"
#include "net/runtime/blocking_jobs.h"
#include "pagetable/epoch_register.h"

namespace farpage::etcd {

// The register of epochs in etcd. A read is one transaction, which etcd answers when it knows from
// a quorum that nothing newer was acknowledged; an epoch replaces another if its key was not
// written since that was read.
//
// A node's writes happen only while its process is the one that is registered under its name.
//
// Calls block on threads of its own, for call_ns at most. Destroyed on the runtime, or once that
// has stopped; what waits then never ends.
class Register final : public EpochRegister {
 public:
  struct Options {
    uint64_t fleet_id = 0;  // of the terms: what is told of another fleet is refused
    uint64_t call_ns = 0;
    std::function<Condition()> registered;  // of a node; thread-safe
  };
  // `runtime` and `client` outlive it, and what `registered` asks.
  Register(Runtime& runtime, Client& client, Options options);
  ~Register() override;

  void read(std::function<void(Result<RegisteredEpoch>)> done) override;
  void replace(uint64_t current, Epoch next, std::function<void(Result<void>)> done) override;
  void confirm(NodeId node, uint64_t number, std::function<void(Result<void>)> done) override;
  std::shared_ptr<void> when_changed(const std::function<void()>& changed) override;

  // Where a node was last known to be; empty: it never was. Thread-safe.
  std::string address_of(NodeId node) const;
  // A node has told where this one is in that epoch: no read of an epoch before knows better.
  // Thread-safe.
  void heard_of(uint64_t epoch, NodeId node, const std::string& address);

 private:
  static constexpr size_t kMostCalls = 64;  // at one time

  // `call` on a thread that may block, then `done`, with its result, on the runtime.
  template <typename T>
  void ask(std::function<Result<T>()> call, std::function<void(Result<T>)> done);
  struct LastRead {
    Revision revision = 0;  // of the whole store, then; 0: nothing was read yet
    std::string terms = {};
    RegisteredEpoch read;
  };
  Result<RegisteredEpoch> read_now();
  LastRead last_read() const;
  Result<void> write_now(uint64_t current, Transaction transaction);
  // On the runtime, if this still lives then.
  void answer(std::function<void()> callback);
  void watch();
  void tell();

  Runtime& runtime_;
  Client& client_;
  const Options options_;

  mutable std::mutex mutex_;  // of what follows
  uint64_t number_ = 0;       // of the newest epoch that was read
  Revision epoch_revision_ = 0;
  std::unordered_map<NodeId, std::string> addresses_;
  uint64_t heard_epoch_ = 0;
  LastRead last_;

  std::vector<std::weak_ptr<std::function<void()>>> hooks_;  // on the runtime
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  BlockingJobs jobs_{{.dial = kMostCalls}};  // first to go
};

}  // namespace farpage::etcd
