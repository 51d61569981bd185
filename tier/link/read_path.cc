#include "tier/link/read_path.h"

#include <utility>

namespace farpage {

bool ReadPath::advance(uint64_t now_ns) {
  if (outdated()) end();
  if (is_open()) return true;
  if (state_ == State::kEnding && in_flight_ == 0 && disposal_->ended()) {
    disposal_.reset();
    state_ = State::kClosed;
  }
  if (may_ask(now_ns)) ask();
  if (take_answer(now_ns)) touches_.attach(view_->staging);
  return is_open();
}

void ReadPath::ask() {
  const uint64_t replaces = begin_asking();
  Runtime& runtime = link_->runtime();
  const uint64_t deadline = runtime.clock().now_ns() + link_->options().connect_ms * kMillisecond;
  view_->link->call(OpenLaneRequest{replaces}, [answer = answer_, geometry = view_->geometry,
                                                peer = view_->link->peer(),
                                                deadline](Result<Reply> reply) {
    auto* offer = answer->granted<OpenLaneReply>(reply);
    if (offer == nullptr) return;
    offer->read_offer.peer = peer;
    // Connecting over a network blocks, and to map a pool lasts. The offer is shared, because
    // std::function needs what can be copied.
    answer->runtime.offload(
        JobClass::kConnect,
        [answer, geometry, deadline, taken = std::make_shared<OpenLaneReply>(std::move(*offer))] {
          auto opened = answer->gate->pass([&](Fabric& fabric) {
            return take_up(fabric, geometry, deadline, std::move(*taken));
          });
          if (!opened) return answer->tell(opened.error());
          answer->opened = std::move(*opened);
          answer->tell(std::nullopt);
        });
  });
}

Result<ReadChannel> ReadPath::take_up(Fabric& fabric, const Geometry& geometry,
                                      uint64_t deadline_ns, OpenLaneReply offer) {
  if (offer.headers.has_value() != geometry.is_apart()) {
    return fail(Code::kProtocol,
                geometry.is_apart()
                    ? "the node says that its headers lie apart, and offers no region of them: run "
                      "the same version of farpage on both ends"
                    : "the node offers a region of headers, and says that they lie in its pool: "
                      "run the same version of farpage on both ends");
  }
  ReadChannel opened;
  auto channel = fabric.connect(std::move(offer.read_offer), deadline_ns);
  if (!channel) return tl::unexpected(channel.error());
  opened.reads = std::move(*channel);
  // No slot and no bucket that the geometry allows lies behind them.
  const auto import = [&](RegionExport from, uint64_t bytes, RemoteRegion& to) -> Result<void> {
    auto region = opened.reads->import_region(std::move(from), {Access::kRemoteRead, bytes});
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

void ReadPath::end() {
  if (!is_open()) return;
  touches_.attach(nullptr);
  disposal_ = ChannelDisposal::begin(link_->runtime(), {std::move(opened_.reads), nullptr});
  state_ = State::kEnding;
}

void ReadPath::finish() {
  if (is_open()) {
    touches_.attach(nullptr);
    opened_.reads.reset();
  }
  if (disposal_ != nullptr) disposal_->finish();
  disposal_.reset();
  answer_.reset();
  in_flight_ = 0;
  state_ = State::kClosed;
}

void ReadPath::wait(uint64_t deadline_ns) {
  if (is_open() && in_flight_ > 0) return opened_.reads->wait(deadline_ns);
  wait_until(deadline_ns, [this] { return changed(); });
}

}  // namespace farpage
