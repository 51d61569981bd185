#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/memory/mapping.h"
#include "base/units.h"
#include "tier/client.h"
#include "transport/page_pool.h"

namespace farpage {

// Registered memory of a lane's own, in places of one size. On one thread; the client outlives it.
class LandingPlaces {
 public:
  static Result<LandingPlaces> create(Client& client, uint64_t page_bytes, uint32_t pages) {
    auto memory = Mapping::anonymous(round_up(page_bytes, 64) * pages);
    if (!memory) return tl::unexpected(memory.error());
    auto region = client.register_memory({memory->data(), memory->bytes()});
    if (!region) return tl::unexpected(region.error());
    return LandingPlaces(std::move(*memory), PagePool::over(std::move(*region), page_bytes), pages);
  }
  // While none is taken.
  LandingPlaces(LandingPlaces&&) = default;

  size_t size() const { return taken_.size(); }
  size_t taken() const { return count_; }

  // Nothing: none is free.
  std::optional<uint32_t> take() {
    if (count_ == taken_.size()) return std::nullopt;
    auto lease = pool_.take();
    if (!lease) return std::nullopt;
    const uint32_t place = lease->index();
    taken_[place].emplace(std::move(*lease));
    ++count_;
    return place;
  }
  // Nothing may write there any more.
  void give_back(uint32_t place) {
    taken_[place].reset();
    --count_;
  }
  // Of one that is taken: its first bytes.
  Slice slice(uint32_t place, uint64_t bytes) const {
    Slice slice = taken_[place]->slice();
    slice.bytes = bytes;
    return slice;
  }

 private:
  LandingPlaces(Mapping memory, PagePool pool, uint32_t pages)
      : memory_(std::move(memory)), pool_(std::move(pool)), taken_(pages) {}

  Mapping memory_;
  PagePool pool_;  // after its memory: its registration ends first
  std::vector<std::optional<PageLease>> taken_;
  size_t count_ = 0;
};

}  // namespace farpage
