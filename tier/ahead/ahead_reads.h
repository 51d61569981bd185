#pragma once

#include <utility>

#include "tier/ahead/page_fetches.h"
#include "tier/ahead/prefetch_transport.h"
#include "tier/fetch/lane.h"
#include "transport/page_pool.h"

namespace farpage {

// Each page in a fetch of its own, over a lane, into memory of its own. The client that both are of
// outlives it.
class AheadReads final : public PrefetchTransport {
 public:
  AheadReads(Lane lane, PagePool landing, uint32_t most_under_way)
      : lane_(std::move(lane)), landing_(std::move(landing)), fetches_(lane_, most_under_way) {}

  size_t places() const override { return landing_.pages(); }
  size_t taken() const override { return landing_.pages() - landing_.free_pages(); }

  std::optional<uint32_t> begin(const PageKey& key, uint64_t bytes, uint64_t deadline_ns) override {
    const auto place = landing_.take_index();
    if (place) fetches_.begin(*place, {key, 0, landing_.slice(*place, bytes)}, deadline_ns);
    return place;
  }
  void send() override {}
  void progress() override { fetches_.progress(); }
  std::optional<Ended> next() override {
    const auto ended = fetches_.next();
    if (!ended) return std::nullopt;
    return Ended{static_cast<uint32_t>(ended->tag), ended->verdict};
  }
  void give_back(uint32_t place) override { landing_.give_back(place); }

  Lane* lane() override { return &lane_; }
  void wait(uint64_t until_ns) override { fetches_.wait(until_ns); }
  LaneStats stats() const override { return lane_.stats(); }

 private:
  Lane lane_;
  PagePool landing_;
  PageFetches fetches_;  // last: they end first, while what they write to still stands
};

}  // namespace farpage
