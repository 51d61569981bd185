#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "control/messages.h"
#include "tier/link/channel_disposal.h"
#include "tier/link/node_path.h"
#include "tier/staging/touch_recorder.h"
#include "transport/fabric.h"

namespace farpage {

// The path made from a node's offer. Headers: of the pool where they lie together.
struct ReadChannel {
  std::unique_ptr<Initiator> reads;
  RemoteRegion pool;
  RemoteRegion headers;
  RemoteRegion index;
};

// A lane's channel to the node, through its life. Operations are counted in and out. A path that
// ends hands its channel to a thread that may block, and opens again only once it is gone.
//
//   closed ──ask()──► opening ──offer came──► open ──end()──► ending ──channel gone──► closed
class ReadPath : public NodePath<ReadChannel> {
 public:
  explicit ReadPath(std::shared_ptr<NodeSession> link)
      : NodePath(std::move(link), &View::retired_lanes, "a lane to the memory node") {}
  ~ReadPath() { finish(); }

  // Goes one step further, if one is due: opens a path to the current view, takes up the offer, or
  // ends the path of a view that is not the current one any more. True: the path is open.
  bool advance(uint64_t now_ns);

  // Open, to the view that is still the current one: advance() would do nothing.
  bool is_current() const {
    return is_open() && view_number_ == link_->published().number() && view_ == newest_;
  }
  // When advance() has to be called again for a path that is not open, as far as time decides.
  uint64_t retry_ns() const {
    return state_ == State::kClosed && newest_ != nullptr ? retry_ns_ : kNever;
  }
  // Of the payloads, and of the headers: one and the same where they lie together.
  const RemoteRegion& pool() const { return opened_.pool; }
  const RemoteRegion& headers() const { return opened_.headers; }
  const RemoteRegion& index() const { return opened_.index; }
  const Initiator* channel() const { return opened_.reads.get(); }

  size_t room() const { return opened_.reads->room(); }
  Operation& next() {
    ++in_flight_;
    return opened_.reads->next();
  }
  Status post() { return opened_.reads->post(); }
  // The caller says which of them are the first for their operation.
  size_t poll(std::span<Completion> completions) {
    return is_open() ? opened_.reads->poll(completions) : 0;
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
    return NodePath::changed() || (disposal_ != nullptr && disposal_->ended());
  }
  // Until something may have changed, or the deadline.
  void wait(uint64_t deadline_ns);
  // As the initiator's, of an open path.
  int descriptor() const { return opened_.reads->descriptor(); }
  uint64_t arm() { return opened_.reads->arm(); }
  uint64_t spin_ns() const { return opened_.reads->spin_ns(); }

 private:
  static Result<ReadChannel> take_up(Fabric& fabric, const Geometry& geometry, uint64_t deadline_ns,
                                     OpenLaneReply offer);
  void ask();

  std::shared_ptr<ChannelDisposal> disposal_;  // while it is ending
  TouchRecorder touches_;
  size_t in_flight_ = 0;
};

}  // namespace farpage
