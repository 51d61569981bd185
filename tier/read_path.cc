#include "tier/read_path.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace farpage {
namespace {

constexpr uint64_t kRetryNs = 50 * kMillisecond;

Error why_none(const Result<Reply>& reply) {
  if (!reply) return reply.error();
  const auto* refusal = std::get_if<Refusal>(&*reply);
  if (refusal != nullptr) return {refusal->code, refusal->message};
  return {Code::kProtocol, "the node did not answer with a lane"};
}

}  // namespace

ReadPath::~ReadPath() {
  if (view_ != nullptr && lane_ != 0) view_->retired_lanes.add(lane_);
  FARPAGE_CHECK(in_flight_ == 0);
  touches_.detach();
  while (!touches_.ended()) touches_.wait(kNever);
}

void ReadPath::refresh_view() {
  const uint64_t number = link_->view_number();
  if (number == view_number_) return;
  view_number_ = number;
  newest_ = link_->view();
  retry_ns_ = 0;
}

bool ReadPath::view_valid(uint64_t now_ns) {
  refresh_view();
  const View* view = newest_view();
  return view != nullptr && view->valid(now_ns);
}

bool ReadPath::outdated() {
  refresh_view();
  return state_ == State::kOpen && view_ != newest_;
}

bool ReadPath::advance(uint64_t now_ns) {
  refresh_view();
  if (state_ == State::kOpen && view_ == newest_) return true;
  if (state_ == State::kOpen) end();
  // What an older view answers is of no use, and may never come.
  if (state_ == State::kOpening && view_ != newest_) {
    answer_.reset();
    state_ = State::kClosed;
  }
  if (state_ == State::kEnding && in_flight_ == 0 && touches_.ended()) {
    channel_.reset();
    state_ = State::kClosed;
  }
  if (state_ == State::kClosed && newest_ != nullptr && newest_->valid(now_ns) &&
      now_ns >= retry_ns_) {
    ask();
  }
  if (state_ == State::kOpening && answer_->here.load(std::memory_order_acquire)) {
    answered();
    retry_ns_ = state_ == State::kClosed ? now_ns + kRetryNs : 0;
  }
  return state_ == State::kOpen;
}

void ReadPath::ask() {
  const bool again = view_ == newest_ && lane_ != 0;
  const uint64_t replaces = again ? lane_ : newest_->retired_lanes.take();
  view_ = newest_;
  lane_ = 0;
  state_ = State::kOpening;
  answer_ = std::make_shared<Answer>(view_);
  Runtime& runtime = link_->runtime();
  const uint64_t deadline = runtime.clock().now_ns() + link_->options().connect_ms * kMillisecond;
  view_->link->call(OpenLaneRequest{replaces},
                    [answer = answer_, &runtime, gate = link_->gate(), geometry = view_->geometry,
                     peer = view_->link->peer(), deadline](Result<Reply> reply) {
                      auto* offer = reply ? std::get_if<OpenLaneReply>(&*reply) : nullptr;
                      if (offer == nullptr) {
                        answer->tell(runtime, tl::unexpected(why_none(reply)));
                        return;
                      }
                      answer->lane = offer->lane;
                      offer->read_offer.peer = offer->touch_offer.peer = peer;
                      // Connecting over a network blocks, and to map a pool lasts. The offer is
                      // shared, because std::function needs what can be copied.
                      runtime.offload(JobClass::kConnect,
                                      [answer, &runtime, gate, geometry, deadline,
                                       taken = std::make_shared<OpenLaneReply>(std::move(*offer))] {
                                        answer->tell(runtime, gate->pass([&](Fabric& fabric) {
                                          return take_up(fabric, geometry, deadline,
                                                         std::move(*taken));
                                        }));
                                      });
                    });
}

Result<ReadPath::Opened> ReadPath::take_up(Fabric& fabric, const Geometry& geometry,
                                           uint64_t deadline_ns, OpenLaneReply offer) {
  Opened opened;
  const auto join = [&](ChannelOffer from, std::unique_ptr<Channel>& to) -> Result<void> {
    auto channel = fabric.connect(std::move(from), deadline_ns);
    if (!channel) return tl::unexpected(channel.error());
    to = std::move(*channel);
    return {};
  };
  const auto import = [](Channel& channel, RegionExport from, Access access, uint64_t least_bytes,
                         RemoteRegion& to) -> Result<void> {
    if (from.access != access) {
      return fail(Code::kProtocol, "the node offers memory of another kind than its use needs");
    }
    auto region = channel.import_region(std::move(from));
    if (!region) return tl::unexpected(region.error());
    to = *region;
    if (to.bytes >= least_bytes) return {};
    return fail(Code::kProtocol, "the node's memory is smaller than its hello says");
  };
  return join(std::move(offer.read_offer), opened.channel)
      .and_then([&] {
        return import(*opened.channel, std::move(offer.pool), Access::kRemoteRead,
                      geometry.pool_bytes(), opened.pool);
      })
      .and_then([&] {
        return import(*opened.channel, std::move(offer.index), Access::kRemoteRead,
                      geometry.index_bytes(), opened.index);
      })
      .and_then([&] { return join(std::move(offer.touch_offer), opened.touch_channel); })
      .and_then([&] {
        return import(*opened.touch_channel, std::move(offer.touches), Access::kRemoteWrite,
                      sizeof(TouchLog), opened.touches);
      })
      .and_then([&]() -> Result<void> {
        auto memory = Mapping::anonymous(sizeof(TouchRecorder::Buffer));
        if (!memory) return tl::unexpected(memory.error());
        auto region = fabric.register_local({memory->data(), memory->bytes()});
        if (!region) return tl::unexpected(region.error());
        opened.touch_memory = std::move(*memory);
        opened.touch_region = std::move(*region);
        return {};
      })
      .map([&] { return std::move(opened); });
}

void ReadPath::answered() {
  const std::shared_ptr<Answer> answer = std::move(answer_);
  lane_ = std::exchange(answer->lane, 0);
  if (!*answer->opened) {
    state_ = State::kClosed;
    error_ = answer->opened->error();
    if (!lost_link()) warnings_.warn("cannot open a lane to the memory node: " + error_->message);
    return;
  }
  Opened& opened = **answer->opened;
  channel_ = std::move(opened.channel);
  pool_ = opened.pool;
  index_ = opened.index;
  touch_region_ = std::move(opened.touch_region);
  touch_memory_ = std::move(opened.touch_memory);
  touches_.attach(std::move(opened.touch_channel), opened.touches,
                  reinterpret_cast<TouchRecorder::Buffer*>(touch_memory_.data()),
                  touch_region_.slice(0, sizeof(TouchRecorder::Buffer)));
  state_ = State::kOpen;
}

PostResult ReadPath::post(std::span<const Operation> operations, uint64_t deadline_ns) {
  const PostResult result = channel_->post(operations, deadline_ns);
  in_flight_ += result.accepted;
  return result;
}

size_t ReadPath::poll(std::span<Completion> completions) {
  return channel_ == nullptr ? 0 : channel_->poll(completions);
}

void ReadPath::end() {
  if (state_ != State::kOpen) return;
  touches_.detach();
  channel_->close();
  state_ = State::kEnding;
}

void ReadPath::wait(uint64_t deadline_ns) {
  if (in_flight_ > 0) return channel_->wait(deadline_ns);
  if (state_ == State::kEnding) return touches_.wait(deadline_ns);
  const uint64_t until =
      state_ == State::kClosed
          ? std::min(deadline_ns, std::max(retry_ns_, link_->runtime().clock().now_ns() + kRetryNs))
          : deadline_ns;
  link_->runtime().wait_until(until, [this] { return changed(); });
}

}  // namespace farpage
