#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/fabric.h"
#include "transport/page_pool.h"
#include "transport/transfer_counters.h"

namespace farpage {

// The memory that a node writes one lane's pages into, with the end of the channel by which it
// does: places of one slot each, and the immediates that say which groups of pages are there. When
// it goes, its channel goes first, and with it the queue pair: from then on nothing writes it
// (protocol rule 5). One thread.
class PushLanding {
 public:
  // As many immediates may be on their way: half of what a verbs receive queue takes.
  static constexpr uint32_t kMostAwaited = 256;

  PushLanding(std::unique_ptr<Channel> channel, Region region, uint64_t slot_bytes)
      : pool_(PagePool::over(std::move(region), slot_bytes)), channel_(std::move(channel)) {}

  PagePool& pool() { return pool_; }
  const PagePool& pool() const { return pool_; }
  bool lent() const { return pool_.free_pages() + pool_.quarantined_pages() < pool_.pages(); }

  // An immediate for a transfer of so many groups, whose last use has all arrived (protocol rule
  // 16); nothing when too many are on their way.
  std::optional<uint32_t> begin(uint32_t groups);
  // How many groups of this transfer are there. They come in order, so these are the first.
  uint32_t arrived(uint32_t immediate) const { return arrivals_.arrived(immediate); }

  // Takes what has arrived. False: nothing has.
  bool poll();
  void wait(uint64_t deadline_ns) { channel_->wait(deadline_ns); }
  // Ends the channel: nothing arrives any more.
  void close() { channel_->close(); }

 private:
  struct Transfer {
    uint32_t generation = 0;
    uint32_t groups = 0;
  };
  uint32_t awaited(uint32_t counter) const;

  PagePool pool_;
  std::unique_ptr<Channel> channel_;  // after the memory: it goes first
  TransferCounters arrivals_;
  std::array<Transfer, kTransferCounters> transfers_;  // the last of each counter
  uint32_t next_counter_ = 0;
};

}  // namespace farpage
