#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "pagetable/touch_log.h"
#include "tier/staging/staging.h"

namespace farpage {

// The slots that one lane has read at one node, until they make a block, which the staging of the
// lane's view takes on. One thread; never waits.
class TouchRecorder {
 public:
  // From now on it tells this staging; null: nobody. Earlier reads are forgotten.
  void attach(std::shared_ptr<Staging> staging) {
    staging_ = std::move(staging);
    recorded_ = 0;
  }

  // False: the staging is broken.
  bool record(uint64_t slot) {
    if (staging_ == nullptr) return true;
    slots_[recorded_++] = static_cast<uint32_t>(slot);
    if (recorded_ < kTouchBlockSlots) return true;
    recorded_ = 0;
    staging_->touched(slots_);
    return !staging_->broken();
  }

 private:
  std::shared_ptr<Staging> staging_;
  std::array<uint32_t, kTouchBlockSlots> slots_;
  uint32_t recorded_ = 0;
};

}  // namespace farpage
