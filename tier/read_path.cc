#include "tier/read_path.h"

#include <algorithm>
#include <array>

#include "base/log.h"

namespace farpage {
namespace {

constexpr uint64_t kRetryNs = 50 * kMillisecond;

}  // namespace

ReadPath::~ReadPath() {
  if (channel_ == nullptr) return;
  channel_->close();
  std::array<Completion, 64> completions;
  while (in_flight_ > 0) {
    if (poll(completions) == 0) channel_->wait(kNever);
  }
}

void ReadPath::refresh_view() {
  const uint64_t number = link_->view_number();
  if (number == view_number_) return;
  view_number_ = number;
  newest_ = link_->view();
}

bool ReadPath::view_valid(uint64_t now_ns) {
  refresh_view();
  const View* view = state_ == State::kOpen ? view_.get() : newest_.get();
  return view != nullptr && view->valid(now_ns);
}

bool ReadPath::advance(uint64_t now_ns, TouchRecorder& touches, TouchRecorder::Buffer* buffer,
                       const Slice& buffer_slice) {
  refresh_view();
  if (state_ == State::kOpen && view_ == newest_) return true;
  if (state_ == State::kOpen) end(touches);
  if (state_ == State::kEnding && in_flight_ == 0) {
    channel_.reset();
    state_ = State::kClosed;
  }
  if (state_ == State::kClosed && newest_ != nullptr && newest_->valid(now_ns) &&
      now_ns >= retry_ns_) {
    ask();
  }
  if (state_ == State::kOpening && answer_->here.load(std::memory_order_acquire)) {
    take_up(touches, buffer, buffer_slice);
    retry_ns_ = state_ == State::kClosed ? now_ns + kRetryNs : 0;
  }
  return state_ == State::kOpen;
}

void ReadPath::ask() {
  const uint64_t replaces = view_ == newest_ ? lane_ : 0;
  view_ = newest_;
  state_ = State::kOpening;
  answer_ = std::make_shared<Answer>();
  Runtime& runtime = link_->runtime();
  view_->link->call(OpenLaneRequest{replaces}, [answer = answer_, &runtime](Result<Reply> reply) {
    answer->reply = std::move(reply);
    answer->here.store(true, std::memory_order_release);
    runtime.notify();
  });
}

void ReadPath::take_up(TouchRecorder& touches, TouchRecorder::Buffer* buffer,
                       const Slice& buffer_slice) {
  state_ = State::kClosed;
  const std::shared_ptr<Answer> answer = std::move(answer_);
  if (!*answer->reply) return;  // the link is lost; a new view follows
  auto* offer = std::get_if<OpenLaneReply>(&**answer->reply);
  if (offer == nullptr) {
    if (const auto* refusal = std::get_if<Refusal>(&**answer->reply)) {
      log_warning("the memory node refuses a lane: " + refusal->message);
    }
    return;
  }
  lane_ = offer->lane;
  const uint64_t deadline = link_->runtime().clock().now_ns() + view_->lease_ns;
  const auto opened = [&]() -> Result<void> {
    auto channel = link_->fabric().connect(std::move(offer->read_offer), deadline);
    if (!channel) return tl::unexpected(channel.error());
    auto pool = (*channel)->import_region(std::move(offer->pool));
    if (!pool) return tl::unexpected(pool.error());
    auto index = (*channel)->import_region(std::move(offer->index));
    if (!index) return tl::unexpected(index.error());
    if (pool->bytes < view_->geometry.pool_bytes() ||
        index->bytes < view_->geometry.index_bytes()) {
      return fail(Code::kProtocol, "the node's pool or index is smaller than it says");
    }
    auto touch_channel = link_->fabric().connect(std::move(offer->touch_offer), deadline);
    if (!touch_channel) return tl::unexpected(touch_channel.error());
    auto log = (*touch_channel)->import_region(std::move(offer->touches));
    if (!log) return tl::unexpected(log.error());
    channel_ = std::move(*channel);
    pool_ = *pool;
    index_ = *index;
    touches.attach(std::move(*touch_channel), *log, buffer, buffer_slice);
    state_ = State::kOpen;
    return {};
  }();
  if (!opened) log_warning("cannot open a lane to the memory node: " + opened.error().message);
}

PostResult ReadPath::post(std::span<const Operation> operations, uint64_t deadline_ns) {
  const PostResult result = channel_->post(operations, deadline_ns);
  in_flight_ += result.accepted;
  return result;
}

size_t ReadPath::poll(std::span<Completion> completions) {
  if (channel_ == nullptr) return 0;
  const size_t count = channel_->poll(completions);
  in_flight_ -= count;
  return count;
}

void ReadPath::end(TouchRecorder& touches) {
  if (state_ != State::kOpen) return;
  touches.detach();
  channel_->close();
  state_ = State::kEnding;
}

void ReadPath::wait(uint64_t deadline_ns) {
  if (in_flight_ > 0) return channel_->wait(deadline_ns);
  if (state_ == State::kEnding) return;
  const uint64_t until =
      state_ == State::kClosed
          ? std::min(deadline_ns, std::max(retry_ns_, link_->runtime().clock().now_ns() + kRetryNs))
          : deadline_ns;
  link_->runtime().wait_until(until, [this] {
    return link_->view_number() != view_number_ ||
           (answer_ != nullptr && answer_->here.load(std::memory_order_acquire));
  });
}

}  // namespace farpage
