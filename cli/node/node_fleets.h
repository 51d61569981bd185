#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/node/node_settings.h"
#include "client/fleet/cluster_options.h"
#include "net/runtime/asio_runtime.h"
#include "tier/link/fleet.h"

namespace farpage {

// The fleets that a node's process is a member of: none, one, or one for each of its tenants.
class NodeFleets {
 public:
  // `address`: where this node is. Of all of them, or of none. `runtime` outlives it.
  static Result<std::unique_ptr<NodeFleets>> join(const NodeSettings& settings,
                                                  const std::string& address, AsioRuntime& runtime);

  // In the order of the tenants. Of use as long as this lives.
  std::vector<Fleet> fleets() const;
  // Of the register of one of them; 0: it is a list.
  uint64_t register_id(size_t number) const { return fleets_[number]->register_id(); }

  // Readable once this process is to end: it was drained, another has its name, or it cannot join.
  int ending_fd() const { return ending_.get(); }
  std::string why_it_ends() const;
  // It ends because it could not join.
  bool has_failed() const;

  // The node's own last word: it serves nothing any more.
  void leave();

 private:
  explicit NodeFleets(const NodeSettings& settings);
  Result<std::unique_ptr<ReachableFleet>> join_one(size_t number, const std::string& address,
                                                   AsioRuntime& runtime);
  void end(const std::string& why, bool is_failure = false);
  void drained(size_t number, bool is_drained);
  void cannot_join(size_t number, const std::string& why);

  const NodeSettings& settings_;
  UniqueFd ending_;
  mutable std::mutex mutex_;  // of what follows, for the fleets have threads of their own
  std::string why_it_ends_;
  bool has_failed_ = false;
  std::vector<bool> drained_;                // by fleet
  std::vector<uint64_t> could_not_join_ns_;  // when that was told last; 0: never
  WarningLimiter warnings_;
  std::vector<std::unique_ptr<ReachableFleet>> fleets_;
};

}  // namespace farpage
