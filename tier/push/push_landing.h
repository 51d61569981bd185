#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/fabric.h"
#include "transport/page_pool.h"
#include "transport/transfer_counters.h"

namespace farpage {

// The memory that a node writes one lane's pages into, with the target of the channel by which it
// does: places of one slot each, and the immediates that say which groups of pages are there. When
// it goes, its target goes first, and with it the queue pair: from then on nothing writes it
// (protocol rule 5). One thread.
class PushLanding {
 public:
  PushLanding(std::unique_ptr<Target> target, Region region, uint64_t slot_bytes)
      : pool_(PagePool::over(std::move(region), slot_bytes)), target_(std::move(target)) {
    quarantine_.reserve(pool_.pages());
  }

  PagePool& pool() { return pool_; }
  const PagePool& pool() const { return pool_; }
  bool lent() const { return pool_.free_pages() + quarantine_.size() < pool_.pages(); }

  // Keeps a place of this group until the group is there: the node may write it until then (I4).
  void quarantine(PageLease place, uint32_t first, uint32_t group) {
    quarantine_.push_back({std::move(place), first, group});
  }
  // Gives the pool what may leave quarantine.
  void collect() {
    std::erase_if(quarantine_,
                  [this](const Quarantined& kept) { return arrived(kept.first, kept.group); });
  }
  size_t quarantined_pages() const { return quarantine_.size(); }

  // The immediate of the first of so many groups (group_immediate: of the others), none of whose
  // counters awaits anything of its last use (protocol rule 16); nothing when too many do. So no
  // more are on their way than there are counters, half of what a verbs receive queue takes.
  std::optional<uint32_t> begin(uint32_t groups);
  // Whether this group is there. One whose immediate came twice is as one that came once.
  bool arrived(uint32_t first, uint32_t group) const {
    return arrivals_.arrived(group_immediate(first, group)) > 0;
  }

  // Takes what has arrived. False: nothing has.
  bool poll();
  void wait(uint64_t deadline_ns) { target_->wait(deadline_ns); }
  // Gives the target up: from now on neither poll() nor wait() is called. Until the target is
  // destroyed, the node may still write here.
  std::unique_ptr<Target> detach() { return std::move(target_); }

 private:
  struct Quarantined {
    PageLease place;
    uint32_t first;
    uint32_t group;
  };

  bool awaited(uint32_t counter) const;

  PagePool pool_;
  std::vector<Quarantined> quarantine_;
  std::unique_ptr<Target> target_;  // after the memory: it goes first
  TransferCounters arrivals_;
  std::array<std::optional<uint32_t>, kTransferCounters> last_;  // of each counter: its immediate
  uint32_t next_counter_ = 0;
  uint32_t generation_ = 0;
};

}  // namespace farpage
