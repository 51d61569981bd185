#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/log.h"
#include "control/messages.h"
#include "tier/link/channel_disposal.h"
#include "tier/link/node_link.h"
#include "tier/staging/touch_recorder.h"
#include "transport/fabric.h"

namespace farpage {

// A lane's channel to the node, through its life. Operations are counted in and out. A path that
// ends hands its channel to a thread that may block, and opens again only once it is gone.
//
//   closed ──open()──► opening ──offer came──► open ──end()──► ending ──channel gone──► closed
class ReadPath {
 public:
  explicit ReadPath(std::shared_ptr<NodeLink> link) : link_(std::move(link)) {}
  ~ReadPath();

  // Goes one step further, if one is due: opens a path to the current view, takes up the offer, or
  // ends the path of a view that is not the current one any more. True: the path is open.
  bool advance(uint64_t now_ns);

  // Open, to the view that is still the current one: advance() would do nothing.
  bool is_current() const {
    return is_open() && view_number_ == link_->view_number() && view_ == newest_;
  }
  // When advance() has to be called again for a path that is not open, as far as time decides.
  uint64_t retry_ns() const {
    return state_ == State::kClosed && newest_ != nullptr ? retry_ns_ : kNever;
  }
  // Open, to a view that is not the current one any more.
  bool outdated();
  // Why the last attempt to open the path came to nothing.
  const std::optional<Error>& error() const { return error_; }
  // It was the link that was lost, which says so itself: a new view follows.
  bool lost_link() const {
    return error_ && (error_->code == Code::kUnavailable || error_->code == Code::kAborted);
  }

  bool is_open() const { return state_ == State::kOpen; }
  // Whether there is a view to read under, at this time.
  bool view_valid(uint64_t now_ns);
  // That view; null: there is none.
  const View* newest_view() const { return is_open() ? view_.get() : newest_.get(); }
  const View& view() const { return *view_; }
  // Of the payloads, and of the headers: one and the same where they lie together.
  const RemoteRegion& pool() const { return pool_; }
  const RemoteRegion& headers() const { return headers_; }
  const RemoteRegion& index() const { return index_; }
  const Initiator* channel() const { return parts_.reads.get(); }

  size_t room() const { return parts_.reads->room(); }
  Operation& next() {
    ++in_flight_;
    return parts_.reads->next();
  }
  Status post() { return parts_.reads->post(); }
  // The caller says which of them are the first for their operation.
  size_t poll(std::span<Completion> completions) {
    return is_open() ? parts_.reads->poll(completions) : 0;
  }
  void operation_ended() { --in_flight_; }
  size_t in_flight() const { return in_flight_; }

  // Of a page that was read; told to the node, whose eviction spares its slot.
  void touched(uint64_t slot) {
    // With a staging that is broken the node would take what is read for cold: a new view has
    // another one, and reads go on under this one meanwhile.
    if (!touches_.record(slot)) link_->give_up(view_);
  }

  // Gives the channel up, and returns at once. Operations in flight bring no completion any more;
  // what they land in stays theirs until has_ended(), which the caller tells on to each of them.
  void end();
  // The channel of the path that ended is gone, and operations of theirs were in flight.
  bool has_ended() const {
    return state_ == State::kEnding && in_flight_ > 0 && disposal_->ended();
  }
  void forget_operations() { in_flight_ = 0; }
  // Not open, and nothing of it is left.
  bool at_rest() const {
    return !is_open() && in_flight_ == 0 && (disposal_ == nullptr || disposal_->ended());
  }
  // The same, and waits until nothing lands any more: for destructors.
  void finish();

  // wait() waits for this while nothing is in flight.
  bool changed() const {
    return link_->view_number() != view_number_ || (disposal_ != nullptr && disposal_->ended()) ||
           (answer_ != nullptr && answer_->here.load(std::memory_order_acquire));
  }
  // Until something may have changed, or the deadline.
  void wait(uint64_t deadline_ns);
  // As the initiator's, of an open path.
  int descriptor() const { return parts_.reads->descriptor(); }
  uint64_t arm() { return parts_.reads->arm(); }
  uint64_t spin_ns() const { return parts_.reads->spin_ns(); }

 private:
  enum class State : uint8_t { kClosed, kOpening, kOpen, kEnding };

  // The path made from the node's offer.
  struct Opened {
    ChannelDisposal::Parts parts;
    RemoteRegion pool;
    RemoteRegion headers;
    RemoteRegion index;
  };

  // Where others than the lane's thread leave it. Goes with the last who wants it: the node's lane
  // and the channel are then given up, unless a lane has taken them.
  struct Answer {
    Answer(NodeLink& link, std::weak_ptr<View> asked)
        : runtime(link.runtime()), gate(link.gate()), view(std::move(asked)) {}
    ~Answer() {
      const auto current = lane != 0 ? view.lock() : nullptr;
      if (current != nullptr) current->retired_lanes.add(lane);
      const bool is_there = opened && *opened && (*opened)->parts.reads != nullptr;
      // Once the client goes, so may the runtime: then they end here.
      if (is_there && !gate->closed()) {
        ChannelDisposal::begin(runtime, std::move((*opened)->parts));
      }
    }

    Runtime& runtime;
    const std::shared_ptr<FabricGate> gate;
    const std::weak_ptr<View> view;
    std::atomic<bool> here{false};
    uint64_t lane = 0;
    std::optional<Result<Opened>> opened;

    void tell(Result<Opened> result) {
      opened = std::move(result);
      here.store(true, std::memory_order_release);
      runtime.notify();
    }
  };

  static Result<Opened> take_up(Fabric& fabric, const Geometry& geometry, uint64_t deadline_ns,
                                OpenLaneReply offer);
  void refresh_view();
  void ask();
  void answered();

  std::shared_ptr<NodeLink> link_;
  uint64_t view_number_ = 0;
  std::shared_ptr<View> newest_;  // what the link offers
  std::shared_ptr<View> view_;    // what the path leads to
  State state_ = State::kClosed;
  std::shared_ptr<Answer> answer_;
  ChannelDisposal::Parts parts_;               // while it is open
  std::shared_ptr<ChannelDisposal> disposal_;  // while it is ending
  RemoteRegion pool_;
  RemoteRegion headers_;
  RemoteRegion index_;
  TouchRecorder touches_;
  uint64_t lane_ = 0;  // the node's number for the last path
  size_t in_flight_ = 0;
  std::optional<Error> error_;
  WarningLimiter warnings_;
  uint64_t retry_ns_ = 0;
};

}  // namespace farpage
