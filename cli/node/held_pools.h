#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "node/store/pool_handoff.h"

namespace farpage {

// Memory that the process's starter holds for it: systemd, for a service with
// FileDescriptorStoreMax=, or `farpage hold` (sd_listen_fds(3), sd_notify(3)). One thread.
class HeldPools {
 public:
  // `files`: what is held already, by the names that they have there.
  explicit HeldPools(std::map<std::string, UniqueFd> files);
  ~HeldPools();
  // Null: no process holds anything for this one. Once, before others are started.
  static std::unique_ptr<HeldPools> take_over();

  // First: which run's pools this run may go on with, by the epoch that the state file has given
  // out last. A pool of an earlier run is not the last word: the run between may have put and
  // removed without it.
  void go_on_from(uint64_t last_epoch) { last_epoch_ = last_epoch; }
  // Then for each pool of this process, who keeps it, as long as this lives. `owner`: the
  // fingerprint of its tenant's token; empty, where there are no tenants. `fleet`: by its register,
  // 0 if it serves alone.
  PoolHandoff& pool_of(const std::string& owner, uint64_t fleet);
  // All pools of this process have been named: what is held for others is given up, for it is in
  // the way.
  void give_up_others();
  // This run has its epoch: what it keeps is held under that, from now on.
  void began(uint64_t epoch);

 private:
  class Pool;

  // Gives up what fits, and answers whether there was any.
  template <typename Fits>
  bool give_up(const Fits& fits);

  std::map<std::string, UniqueFd> files_;  // that are held, by their names there
  uint64_t last_epoch_ = 0;
  uint64_t epoch_ = 0;  // 0: not yet
  std::list<Pool> pools_;
};

// Tells it that this process serves; nothing where no starter asks.
void tell_ready();

// An error: what is held for this process comes as that descriptor, in this life or in a later one.
// Before take_over().
Result<void> check_ready_fd(int ready_fd);

}  // namespace farpage
