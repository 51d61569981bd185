#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/client/node_connection.h"
#include "cli/client/signals.h"
#include "cli/farpage/fleet/fleet_look.h"
#include "etcd/client.h"

namespace farpage {

struct UpgradeArguments {
  std::string restart;
  uint64_t within_s = 600;
};

// Restarts the nodes of a fleet in etcd, one after the other. Each next one waits until the one
// before is back and no node has anything left to fill, so that no page loses its last copy.
class FleetUpgrade {
 public:
  FleetUpgrade(const ConnectOptions& options, etcd::Access access,
               const UpgradeArguments& arguments, const Interrupts& interrupts)
      : options_(options),
        arguments_(arguments),
        interrupts_(interrupts),
        client_(std::move(access)) {}

  // The names of the nodes that were restarted, all of them.
  Result<std::vector<std::string>> run();

 private:
  Result<void> restart(const MemberLook& member, const FleetLook& fleet);
  // Until the fleet is whole, with the nodes that it had at first, and this one in another run than
  // that incarnation.
  Result<FleetLook> wait_until_whole(const std::string& name, uint64_t incarnation);
  // What the fleet still waits for; empty: nothing.
  std::string missing(const FleetLook& fleet, const std::string& name, uint64_t incarnation) const;
  void tell(const std::string& what);
  Error with_progress(Error error) const;

  const ConnectOptions& options_;
  const UpgradeArguments& arguments_;
  const Interrupts& interrupts_;
  etcd::Client client_;
  std::vector<std::string> names_;
  std::vector<std::string> restarted_;
  std::optional<FleetLook> told_;  // when the progress was told last
};

}  // namespace farpage
