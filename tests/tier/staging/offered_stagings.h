#pragma once

#include <memory>
#include <vector>

#include "control/messages.h"
#include "pagetable/touch_log.h"
#include "transport/fabric.h"

namespace farpage {

// The stagings of made-up nodes, as clients ask for them that put nothing: a touch log and no more.
class OfferedStagings {
 public:
  explicit OfferedStagings(Fabric& fabric) : fabric_(fabric) {}

  void offer(HelloReply& hello) {
    auto offered = fabric_.offer_channel(ChannelPurpose::kStage).value();
    memories_.push_back(offered.target->allocate_writable(kTouchLogBytes).value());
    hello.staging = fabric_.export_region(memories_.back()).value();
    hello.staging_offer = std::move(offered.offer);
    targets_.push_back(std::move(offered.target));
  }

 private:
  Fabric& fabric_;
  std::vector<Region> memories_;
  std::vector<std::unique_ptr<Target>> targets_;  // after their memory: they go first
};

}  // namespace farpage
