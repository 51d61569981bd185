#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "control/messages.h"
#include "tier/link/node_session.h"

namespace farpage {

// The part that ReadPath and LandingPath share: the view that a path leads to, the request for one
// of the node's lanes with its answer, and when to ask again. `Opened` is this end of the lane;
// destroying it may block. On the lane's thread.
//
// A base without virtual calls: the derived path asks, and says how it ends.
template <typename Opened>
class NodePath {
 public:
  bool is_open() const { return state_ == State::kOpen; }
  // Open, to a view that is not the current one any more.
  bool outdated() {
    refresh_view();
    return is_open() && view_ != newest_;
  }
  // Whether there is a view to use the path under, at this time.
  bool view_valid(uint64_t now_ns) {
    refresh_view();
    const View* view = newest_view();
    return view != nullptr && view->valid(now_ns);
  }
  // That view; null: there is none.
  const View* newest_view() const { return is_open() ? view_.get() : newest_.get(); }
  const View& view() const { return *view_; }

  // It is to be opened to the newest view for the first time, and no attempt has failed.
  bool is_new() const {
    return newest_ != nullptr && !error_ && (view_ != newest_ || state_ == State::kOpening);
  }
  // Why the last attempt to open the path to the newest view came to nothing.
  const std::optional<Error>& error() const { return error_; }
  // It was the link that was lost, which says so itself: a new view follows.
  bool lost_link() const {
    return error_ && (error_->code == Code::kUnavailable || error_->code == Code::kAborted);
  }

 protected:
  enum class State : uint8_t { kClosed, kOpening, kOpen, kEnding };  // kEnding: a ReadPath

  // Where others than the lane's thread leave what they have opened. Goes with the last who wants
  // it: the node's lane and this end of it are then given up, unless the path has taken them.
  struct Answer {
    Answer(NodeSession& link, std::weak_ptr<View> asked, RetiredLanes View::*retired)
        : runtime(link.runtime()),
          gate(link.gate()),
          view(std::move(asked)),
          retired_lanes(retired) {}
    ~Answer() {
      const auto current = lane != 0 ? view.lock() : nullptr;
      if (current != nullptr) ((*current).*retired_lanes).add(lane);
      // Once the client goes, so may the runtime: then it ends here.
      if (!opened || gate->closed()) return;
      runtime.offload(
          JobClass::kDispose,
          [ending = std::make_shared<Opened>(std::move(*opened))]() mutable { ending.reset(); });
    }

    // The node's reply, if it has granted the lane; null: the path hears why not.
    template <typename Granted>
    Granted* granted(Result<Reply>& reply) {
      auto* wanted = reply ? std::get_if<Granted>(&*reply) : nullptr;
      if (wanted != nullptr) {
        lane = wanted->lane;
      } else if (!reply) {
        tell(reply.error());
      } else if (const auto* refusal = std::get_if<Refusal>(&*reply)) {
        tell(Error{refusal->code, refusal->message});
      } else {
        tell(
            Error{Code::kProtocol,
                  "the node's answer is not a lane: run the same version of farpage on both ends"});
      }
      return wanted;
    }
    void tell(std::optional<Error> why_not) {
      error = std::move(why_not);
      here.store(true, std::memory_order_release);
      runtime.notify();
    }

    Runtime& runtime;
    const std::shared_ptr<FabricGate> gate;
    const std::weak_ptr<View> view;
    RetiredLanes View::*const retired_lanes;
    uint64_t lane = 0;
    std::optional<Opened> opened;
    std::optional<Error> error;
    std::atomic<bool> here{false};
  };

  // `retired`: where the view keeps lanes of this kind; `name`: what warnings call one.
  NodePath(std::shared_ptr<NodeSession> link, RetiredLanes View::*retired, const char* name)
      : link_(std::move(link)), retired_lanes_(retired), name_(name) {}
  ~NodePath() {
    if (view_ != nullptr && lane_ != 0) ((*view_).*retired_lanes_).add(lane_);
  }

  void refresh_view() {
    const Published<View>& published = link_->published();
    if (published.number() == view_number_) return;
    if (!published.try_take(newest_, view_number_)) return;
    retry_ns_ = 0;
    error_.reset();
    // The answer of an older view is of no use, and may never come.
    if (state_ != State::kOpening || view_ == newest_) return;
    answer_.reset();
    state_ = State::kClosed;
  }

  bool may_ask(uint64_t now_ns) const {
    return state_ == State::kClosed && newest_ != nullptr && newest_->valid(now_ns) &&
           now_ns >= retry_ns_;
  }
  // From now on answer_ is awaited, of the newest view. The node's lane that the new one is to
  // replace; 0: none.
  uint64_t begin_asking() {
    const bool again = view_ == newest_ && lane_ != 0;
    const uint64_t replaces = again ? lane_ : ((*newest_).*retired_lanes_).take();
    view_ = newest_;
    lane_ = 0;
    state_ = State::kOpening;
    answer_ = std::make_shared<Answer>(*link_, view_, retired_lanes_);
    return replaces;
  }
  // Once the answer is here: opens the path with it, or closes it for a while. True: opens it.
  bool take_answer(uint64_t now_ns) {
    if (state_ != State::kOpening || !answer_->here.load(std::memory_order_acquire)) return false;
    const std::shared_ptr<Answer> answer = std::move(answer_);
    lane_ = std::exchange(answer->lane, 0);
    error_ = answer->error;
    if (error_) {
      state_ = State::kClosed;
      retry_ns_ = now_ns + kRetryNs;
      if (!lost_link()) {
        warnings_.warn(std::string("cannot open ") + name_ + ": " + error_->message);
      }
      return false;
    }
    opened_ = *std::exchange(answer->opened, std::nullopt);
    state_ = State::kOpen;
    return true;
  }

  bool changed() const {
    return link_->published().number() != view_number_ ||
           (answer_ != nullptr && answer_->here.load(std::memory_order_acquire));
  }
  // Of a path that is not open: until `changed`, or the deadline.
  template <typename Changed>
  void wait_until(uint64_t deadline_ns, const Changed& changed) {
    Runtime& runtime = link_->runtime();
    const uint64_t retry_ns = std::max(retry_ns_, runtime.clock().now_ns() + kRetryNs);
    runtime.wait_until(state_ == State::kClosed ? std::min(deadline_ns, retry_ns) : deadline_ns,
                       changed);
  }

  static constexpr uint64_t kRetryNs = 50 * kMillisecond;

  const std::shared_ptr<NodeSession> link_;
  RetiredLanes View::*const retired_lanes_;
  const char* const name_;
  uint64_t view_number_ = 0;
  std::shared_ptr<View> newest_;  // what the link offers
  std::shared_ptr<View> view_;    // what the path leads to
  State state_ = State::kClosed;
  std::shared_ptr<Answer> answer_;  // while it is opening
  Opened opened_;                   // while it is open
  uint64_t lane_ = 0;               // the node's number for the last path
  std::optional<Error> error_;
  WarningLimiter warnings_;
  uint64_t retry_ns_ = 0;
};

}  // namespace farpage
