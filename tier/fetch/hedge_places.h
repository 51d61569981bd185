#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "base/memory/mapping.h"
#include "base/status.h"
#include "tier/request/client_options.h"
#include "transport/fabric.h"

namespace farpage {

// Memory of one lane's own that hedges land in (protocol rule 4), registered before any fetch.
class HedgePlaces {
 public:
  static constexpr uint64_t kMost = ClientOptions::kMostHedgePlaces;

  // Those of `count` places, or none.
  static Result<HedgePlaces> create(Fabric& fabric, uint64_t count, uint64_t page_bytes) {
    HedgePlaces places;
    if (count == 0) return places;
    auto memory = Mapping::anonymous(count * page_bytes);
    if (!memory) return tl::unexpected(memory.error());
    auto region = fabric.register_local({memory->data(), memory->bytes()});
    if (!region) return tl::unexpected(region.error());
    places.memory_ = std::move(*memory);
    places.region_ = std::move(*region);
    places.page_bytes_ = page_bytes;
    places.free_ = count == kMost ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    return places;
  }

  uint64_t page_bytes() const { return page_bytes_; }
  bool empty() const { return free_ == 0; }
  uint8_t take() {
    const auto place = static_cast<uint8_t>(std::countr_zero(free_));
    free_ &= free_ - 1;
    return place;
  }
  void give_back(uint64_t places) { free_ |= places; }
  Slice slice(uint8_t place, uint64_t bytes) const {
    return region_.slice(place * page_bytes_, bytes);
  }

 private:
  Mapping memory_;
  Region region_;  // after memory_: its registration ends first
  uint64_t page_bytes_ = 0;
  uint64_t free_ = 0;  // a bit for each
};

}  // namespace farpage
