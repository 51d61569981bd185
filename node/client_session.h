#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "control/messages.h"
#include "node/page_store.h"
#include "pagetable/touch_log.h"
#include "transport/fabric.h"
#include "transport/transfer_counters.h"

namespace farpage {

// What a node keeps for one client: its own staging, which is never handed on (protocol rule 17),
// and its lanes. All of it goes when the client does.
class ClientSession {
 public:
  explicit ClientSession(Fabric& fabric) : fabric_(fabric) {}

  bool greeted() const { return greeted_; }

  // Requests of this client that wait for their answer. False: too many do.
  bool add_waiting() {
    if (waiting_ == kMostWaiting) return false;
    ++waiting_;
    return true;
  }
  void remove_waiting() { --waiting_; }

  // Makes the staging, unless the client wants none.
  Result<void> greet(uint64_t staging_bytes, HelloReply& reply);
  Result<void> open_lane(const OpenLaneRequest& request, uint64_t max_lanes, const PageStore& store,
                         OpenLaneReply& reply);

  // Whether the client's writes up to this immediate are in the staging.
  bool staged(uint32_t immediate);
  // Empty if it is not within the staging.
  std::span<const std::byte> staged_payload(const CommitPage& page) const;

  // The client's word: what goes back is not believed.
  void report(const VerdictCounts& verdicts);
  const VerdictCounts& reported() const { return reported_; }

  // Tells the store which slots the client has read since the last call.
  void collect_touches(PageStore& store);

 private:
  struct Lane {
    uint64_t id;
    std::unique_ptr<Channel> read_channel;
    Region touches;
    std::unique_ptr<Channel> touch_channel;
    uint64_t touches_seen = 0;
  };

  // A client has no more commits under way than its staging has segments, half of this.
  static constexpr uint32_t kMostWaiting = kTransferCounters;

  Fabric& fabric_;
  uint32_t waiting_ = 0;
  bool greeted_ = false;
  VerdictCounts reported_;
  Region staging_;
  std::unique_ptr<Channel> staging_channel_;  // after staging_: it is closed before the memory goes
  TransferCounters arrivals_;
  std::vector<Lane> lanes_;
  uint64_t last_lane_ = 0;
};

}  // namespace farpage
