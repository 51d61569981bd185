#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "node/pool_keeper.h"

namespace farpage {

// What whoever started this process holds for it: systemd, for a service with
// FileDescriptorStoreMax=, or `farpage hold` (sd_listen_fds(3), sd_notify(3)). One thread.
class HeldPools final : public PoolKeeper {
 public:
  // `files`: what is held already, by the names that they have there.
  explicit HeldPools(std::map<std::string, UniqueFd> files) : files_(std::move(files)) {}
  // Null: nobody holds anything for this process. Once, before others are started.
  static std::unique_ptr<HeldPools> take_over();

  // Before kept(): which run's pool this run may go on with, by the epoch that the state file has
  // given out last, and by the fleet, 0 if it is alone. A pool of an earlier run is not the last
  // word: the run between may have put and removed without it.
  void go_on_from(uint64_t last_epoch, uint64_t fleet);
  // This run has its epoch: what it keeps is held under that, from now on.
  void began(uint64_t epoch);

  UniqueFd kept(const std::string& name) override;
  void keep(const std::string& name, const UniqueFd& file) override;

 private:
  void hold();
  void give_up_all();

  std::map<std::string, UniqueFd> files_;  // that are held, by their names there
  uint64_t last_epoch_ = 0;
  uint64_t fleet_ = 0;
  uint64_t epoch_ = 0;  // 0: not yet
  std::string name_;    // of what this run keeps
  UniqueFd file_;
};

// Tells it that this process serves; nothing where nobody asks.
void tell_ready();

// An error: what is held for this process comes as that descriptor, in this life or in a later one.
// Before take_over().
Result<void> check_ready_fd(int ready_fd);

}  // namespace farpage
