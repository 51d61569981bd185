#pragma once

#include <map>
#include <memory>
#include <string>

#include "node/pool_keeper.h"

namespace farpage {

// What whoever started this process holds for it: systemd, for a service with
// FileDescriptorStoreMax=, or `farpage hold` (sd_listen_fds(3), sd_notify(3)). One thread.
class HeldPools final : public PoolKeeper {
 public:
  // Null: nobody holds anything for this process. Once, before others are started.
  static std::unique_ptr<HeldPools> take_over();

  UniqueFd kept(const std::string& name) override;
  void keep(const std::string& name, const UniqueFd& file) override;

 private:
  std::map<std::string, UniqueFd> files_;
};

// Tells it that this process serves; nothing where nobody asks.
void tell_ready();

}  // namespace farpage
