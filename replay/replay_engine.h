#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "replay/lru.h"
#include "replay/put_history.h"
#include "replay/replay.h"
#include "tier/client.h"
#include "transport/page_pool.h"

namespace farpage {

// The work of Replay::run. A request is served in rounds. A round collects pages in the trace's
// order until the frames that are left over are used up, or until the next page is one that this
// round fetches already but no longer holds; so each page finds exactly what serving one page at a
// time would have left for it. A frame that the LRU drops is used again only in the next round,
// when no fetch can need its bytes any more.
class ReplayEngine {
 public:
  // Every page of `pool` is a frame; there are more than `options.local_pages`.
  ReplayEngine(Client& client, PagePool pool, Lane lane, const Trace& trace,
               const ReplayOptions& options);

  ReplayResult run(const ReplayHooks& hooks);

 private:
  struct LocalPage {
    uint64_t page;
    uint32_t frame;
  };

  void serve(std::span<const uint64_t> pages);
  // Returns how many pages this round serves.
  size_t collect(std::span<const uint64_t> pages);
  void fetch();
  void bring_home(Fetch& fetch);
  void check_landed();
  void put_recomputed();
  void check_hits();
  void end_round();
  void close_window(ReplayWindow& before);

  std::span<std::byte> bytes_of(uint32_t frame) const;
  PageKey key_of(uint64_t page) const;

  Client& client_;
  PagePool pool_;  // outlives the lane that uses it
  Lane lane_;
  const Trace& trace_;
  ReplayOptions options_;
  std::vector<PageLease> frames_;
  std::vector<uint64_t> numbers_;  // of the put that each frame holds
  std::vector<uint32_t> free_;
  LruMap<uint64_t, uint32_t> local_;  // page → frame
  PutHistory puts_;
  size_t round_pages_ = 0;  // of one fetch, at most: the frames beyond the local pages

  // One round's.
  std::vector<LocalPage> misses_;
  std::unordered_set<uint64_t> missing_;
  std::vector<LocalPage> hits_;
  std::vector<uint32_t> dropped_;
  std::vector<PageRequest> requests_;
  std::vector<PageVerdict> verdicts_;
  std::vector<LocalPage> recomputed_;
  std::vector<PutRequest> put_requests_;

  Histogram window_fetch_ns_;
  ReplayResult result_;
};

}  // namespace farpage
