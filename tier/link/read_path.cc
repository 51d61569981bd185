#include "tier/link/read_path.h"

#include <algorithm>
#include <utility>

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
  finish();
  if (view_ != nullptr && lane_ != 0) view_->retired_lanes.add(lane_);
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
  // The answer of an older view is of no use, and may never come.
  if (state_ == State::kOpening && view_ != newest_) {
    answer_.reset();
    state_ = State::kClosed;
  }
  if (state_ == State::kEnding && in_flight_ == 0 && disposal_->ended()) {
    disposal_.reset();
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
  Runtime& runtime = link_->runtime();
  answer_ = std::make_shared<Answer>(*link_, view_);
  const uint64_t deadline = runtime.clock().now_ns() + link_->options().connect_ms * kMillisecond;
  view_->link->call(OpenLaneRequest{replaces},
                    [answer = answer_, &runtime, gate = link_->gate(), geometry = view_->geometry,
                     peer = view_->link->peer(), deadline](Result<Reply> reply) {
                      auto* offer = reply ? std::get_if<OpenLaneReply>(&*reply) : nullptr;
                      if (offer == nullptr) {
                        answer->tell(tl::unexpected(why_none(reply)));
                        return;
                      }
                      answer->lane = offer->lane;
                      offer->read_offer.peer = peer;
                      // Connecting over a network blocks, and to map a pool lasts. The offer is
                      // shared, because std::function needs what can be copied.
                      runtime.offload(JobClass::kConnect,
                                      [answer, gate, geometry, deadline,
                                       taken = std::make_shared<OpenLaneReply>(std::move(*offer))] {
                                        answer->tell(gate->pass([&](Fabric& fabric) {
                                          return take_up(fabric, geometry, deadline,
                                                         std::move(*taken));
                                        }));
                                      });
                    });
}

Result<ReadPath::Opened> ReadPath::take_up(Fabric& fabric, const Geometry& geometry,
                                           uint64_t deadline_ns, OpenLaneReply offer) {
  if (offer.headers.has_value() != geometry.is_apart()) {
    return fail(Code::kProtocol,
                geometry.is_apart()
                    ? "the node says that its headers lie apart, and offers no region of them: run "
                      "the same version of farpage on both ends"
                    : "the node offers a region of headers, and says that they lie in its pool: "
                      "run the same version of farpage on both ends");
  }
  Opened opened;
  auto channel = fabric.connect(std::move(offer.read_offer), deadline_ns);
  if (!channel) return tl::unexpected(channel.error());
  opened.parts.reads = std::move(*channel);
  // No slot and no bucket that the geometry allows lies behind them.
  const auto import = [&](RegionExport from, uint64_t bytes, RemoteRegion& to) -> Result<void> {
    auto region = opened.parts.reads->import_region(std::move(from), {Access::kRemoteRead, bytes});
    if (!region) return tl::unexpected(region.error());
    to = *region;
    return {};
  };
  return import(std::move(offer.pool), geometry.payloads_bytes(), opened.pool)
      .and_then([&]() -> Result<void> {
        opened.headers = opened.pool;
        if (!offer.headers) return {};
        return import(std::move(*offer.headers), geometry.headers_bytes(), opened.headers);
      })
      .and_then(
          [&] { return import(std::move(offer.index), geometry.index_bytes(), opened.index); })
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
  pool_ = opened.pool;
  headers_ = opened.headers;
  index_ = opened.index;
  parts_ = std::move(opened.parts);
  touches_.attach(view_->staging);
  state_ = State::kOpen;
}

void ReadPath::end() {
  if (state_ != State::kOpen) return;
  touches_.attach(nullptr);
  disposal_ = ChannelDisposal::begin(link_->runtime(), std::move(parts_));
  state_ = State::kEnding;
}

void ReadPath::finish() {
  if (state_ == State::kOpen) {
    touches_.attach(nullptr);
    ChannelDisposal(std::move(parts_)).finish();
  }
  if (disposal_ != nullptr) disposal_->finish();
  disposal_.reset();
  answer_.reset();
  in_flight_ = 0;
  state_ = State::kClosed;
}

void ReadPath::wait(uint64_t deadline_ns) {
  if (is_open() && in_flight_ > 0) return parts_.reads->wait(deadline_ns);
  const uint64_t until =
      state_ == State::kClosed
          ? std::min(deadline_ns, std::max(retry_ns_, link_->runtime().clock().now_ns() + kRetryNs))
          : deadline_ns;
  link_->runtime().wait_until(until, [this] { return changed(); });
}

}  // namespace farpage
