#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tier/link/channel_disposal.h"
#include "tier/link/node_path.h"
#include "tier/push/push_landing.h"

namespace farpage {

// A push lane's landing at the node, through its life: made, offered, and given up for another one.
// Landings that were given up are kept until the caller has given their places back, and their
// channels are gone.
//
//   closed ──ask()──► opening ──the node has taken it up──► open ──end()──► closed
class LandingPath : public NodePath<std::unique_ptr<PushLanding>> {
 public:
  LandingPath(std::shared_ptr<NodeSession> link, uint32_t places)
      : NodePath(std::move(link), &View::retired_push_lanes, "a push lane"), places_(places) {}
  ~LandingPath();

  // Goes one step further, if one is due. True: the path is open, to the current view.
  bool advance(uint64_t now_ns);
  // Gives the landing up, and with it all that is on its way there.
  void end();

  PushLanding& landing() { return *opened_; }
  const PushLanding* landing_or_null() const { return opened_.get(); }
  uint64_t lane() const { return lane_; }  // the node's number

  // While it is not open: until something may have changed, or the deadline.
  void wait(uint64_t deadline_ns) {
    wait_until(deadline_ns, [this] { return changed(); });
  }

 private:
  struct Former {
    std::unique_ptr<PushLanding> landing;
    std::shared_ptr<ChannelDisposal> disposal;
  };

  static Result<OpenPushRequest> make(Fabric& fabric, uint64_t places, uint64_t slot_bytes,
                                      std::optional<std::unique_ptr<PushLanding>>& landing);
  void ask();

  const uint32_t places_;
  std::vector<Former> former_;
};

}  // namespace farpage
