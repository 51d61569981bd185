#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/runtime.h"
#include "etcd/fleet_reader.h"
#include "etcd/records.h"
#include "net/runtime/blocking_jobs.h"
#include "pagetable/epoch_register.h"

namespace farpage::etcd {

// The register of epochs in etcd. A read is what FleetReader finds, in transactions that etcd
// answers when it knows from a quorum that nothing newer was acknowledged. An epoch replaces
// another if its key was not written since that was read. Only the epoch's key is watched.
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
  // `runtime` and `reader` outlive it, and what `registered` asks.
  Register(Runtime& runtime, FleetReader& reader, Options options);
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
  Result<RegisteredEpoch> read_now();
  void note(const FleetRecord& fleet);
  Result<void> write_now(uint64_t current, Transaction transaction);
  // On the runtime, if this still lives then.
  void answer(std::function<void()> callback);
  void watch();
  void tell();

  Runtime& runtime_;
  FleetReader& reader_;
  Client& client_;
  const Options options_;

  mutable std::mutex mutex_;  // of what follows
  Revision noted_ = 0;        // the newest read of all
  uint64_t number_ = 0;       // of the newest epoch that was read
  Revision epoch_revision_ = 0;
  std::unordered_map<NodeId, std::string> addresses_;
  uint64_t heard_epoch_ = 0;

  std::vector<std::weak_ptr<std::function<void()>>> hooks_;  // on the runtime
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  BlockingJobs jobs_{{.dial = kMostCalls}};  // first to go
};

}  // namespace farpage::etcd
