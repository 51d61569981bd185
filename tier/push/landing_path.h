#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/log.h"
#include "tier/link/channel_disposal.h"
#include "tier/link/node_link.h"
#include "tier/push/push_landing.h"

namespace farpage {

// A push lane's landing at the node, through its life: made, offered, and given up for another one.
// Landings that were given up are kept until the caller has given their places back, and their
// channels are gone.
//
//   closed ──ask()──► opening ──the node has taken it up──► open ──end()──► closed
class LandingPath {
 public:
  LandingPath(std::shared_ptr<NodeLink> link, uint32_t places)
      : link_(std::move(link)), places_(places) {}
  ~LandingPath();

  // Goes one step further, if one is due. True: the path is open, to the current view.
  bool advance(uint64_t now_ns);
  // Open, to a view that is not the current one any more.
  bool outdated();
  // Gives the landing up, and with it all that is on its way there.
  void end();

  bool is_open() const { return landing_ != nullptr; }
  PushLanding& landing() { return *landing_; }
  const PushLanding* landing_or_null() const { return landing_.get(); }
  const View& view() const { return *view_; }
  const std::shared_ptr<View>& shared_view() const { return view_; }
  uint64_t lane() const { return lane_; }  // the node's number
  bool view_valid(uint64_t now_ns);

  // Why the last attempt to open came to nothing, and whether that was because of a lost link.
  const std::optional<Error>& error() const { return error_; }
  bool lost_link() const {
    return error_ && (error_->code == Code::kUnavailable || error_->code == Code::kAborted);
  }

  // While it is not open: until something may have changed, or the deadline.
  void wait(uint64_t deadline_ns);

 private:
  struct Former {
    std::unique_ptr<PushLanding> landing;
    std::shared_ptr<ChannelDisposal> disposal;
  };

  // Where others than the lane's thread leave it. Goes with the last who wants it: the node's lane
  // and the landing are then given up, unless a lane has taken them.
  struct Answer {
    Answer(NodeLink& link, std::weak_ptr<View> asked)
        : runtime(link.runtime()), gate(link.gate()), view(std::move(asked)) {}
    ~Answer() {
      const auto current = lane != 0 ? view.lock() : nullptr;
      if (current != nullptr) current->retired_push_lanes.add(lane);
      // Once the client goes, so may the runtime: then it ends here.
      if (landing != nullptr && !gate->closed()) {
        runtime.offload(JobClass::kDispose,
                        [ending = std::shared_ptr<PushLanding>(std::move(landing))]() mutable {
                          ending.reset();
                        });
      }
    }

    Runtime& runtime;
    const std::shared_ptr<FabricGate> gate;
    const std::weak_ptr<View> view;
    std::unique_ptr<PushLanding> landing;
    uint64_t lane = 0;
    std::optional<Error> error;
    std::atomic<bool> here{false};

    void tell(std::optional<Error> why_not) {
      error = std::move(why_not);
      here.store(true, std::memory_order_release);
      runtime.notify();
    }
  };

  static Result<OpenPushRequest> make(Fabric& fabric, uint64_t places, uint64_t slot_bytes,
                                      std::unique_ptr<PushLanding>& landing);
  void refresh_view();
  void ask();
  void answered(uint64_t now_ns);

  std::shared_ptr<NodeLink> link_;
  const uint32_t places_;
  uint64_t view_number_ = 0;
  std::shared_ptr<View> newest_;  // what the link offers
  std::shared_ptr<View> view_;    // what the path leads to
  std::shared_ptr<Answer> answer_;
  std::unique_ptr<PushLanding> landing_;
  std::vector<Former> former_;
  uint64_t lane_ = 0;
  std::optional<Error> error_;
  WarningLimiter warnings_;
  uint64_t retry_ns_ = 0;
};

}  // namespace farpage
