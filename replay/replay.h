#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/status.h"
#include "base/units.h"
#include "replay/traces/trace.h"
#include "tier/client.h"
#include "transport/fabric.h"

namespace farpage {

struct ReplayOptions {
  uint64_t page_bytes = 64 * kKiB;
  uint64_t local_pages = 0;  // the engine's own memory: an LRU of this many pages
  uint64_t fetch_deadline_ns = kSecond;
  uint64_t put_deadline_ns = 5 * kSecond;
  bool hedge = false;  // where there are replicas
  uint64_t prefill_tokens_per_s =
      0;  // a page that would come later than that is recomputed; 0: none
  std::string name_space =
      "replay";  // of the keys; its own for each replay on a node that lives longer

  Result<void> validate() const;
  FetchOptions fetch_options(uint64_t block_tokens) const;
};

// The results of a stretch of the trace.
struct ReplayWindow {
  uint64_t last_request = 0;  // counted from 1
  uint64_t pages_demanded = 0;
  uint64_t local_hits = 0;
  uint64_t ready = 0;
  double fetch_p50_ns = 0;  // of its fetches; 0 without any
  double fetch_p99_ns = 0;
};

// Something that befell the replay: a node that was killed.
struct ReplayEvent {
  uint64_t request = 0;  // how many were served
  std::string what;
};

inline constexpr size_t kReplayWindows = 200;

struct ReplayResult {
  bool interrupted = false;
  uint64_t requests = 0;
  uint64_t pages_demanded = 0;
  uint64_t local_hits = 0;
  uint64_t fetched = 0;  // pages asked of the node
  uint64_t fetches = 0;  // calls
  uint64_t ready = 0;
  std::array<uint64_t, kReasons> recompute = {};  // by Reason
  std::array<uint64_t, kCodes> puts = {};         // by Code
  std::string put_refusal;                        // why the first was not acknowledged, if told
  uint64_t hedges = 0;                            // pages asked of another replica as well
  uint64_t hedges_won = 0;                        // ... and that came from there
  uint64_t wrong_bytes = 0;                       // of ready pages, every byte of which is compared
  uint64_t local_wrong_bytes = 0;                 // of pages that were served locally
  uint64_t late_fetches = 0;  // verdicts later than the deadline by more than kLatenessAllowedNs
  uint64_t lateness_max_ns = 0;
  Histogram fetch_ns;  // one sample a fetch, from the call until all its verdicts are there
  Histogram page_ns;   // one sample a ready page: its fetch's
  double fetch_seconds = 0;
  double wall_seconds = 0;
  std::vector<ReplayWindow> windows;  // at most kReplayWindows
  std::vector<ReplayEvent> events;

  double bytes_per_s(uint64_t page_bytes) const;  // of ready pages, within fetches
  uint64_t recomputed() const;
};

inline constexpr uint64_t kLatenessAllowedNs = 10 * kMillisecond;

struct ReplayHooks {
  std::function<bool()> interrupted = [] { return false; };  // asked before each request
  // After each request; returns what it has done that the report must tell, or nothing.
  std::function<std::string(uint64_t requests)> progress = [](uint64_t) { return ""; };
};

class ReplayEngine;

// Replays a trace as an engine would: each hash id is one page. Pages are looked up and touched one
// by one in the trace's order; what is not held locally is fetched, and what cannot be fetched is
// "recomputed" (generated) and put, which is acknowledged before the next request. Goes on whatever
// the node does: what it does not serve is recomputed, and what it does not take is counted. As
// fast as possible; one thread.
//
// `client` must outlive it.
class Replay {
 public:
  // Takes and touches the memory for the local pages.
  static Result<Replay> create(Client& client, Fabric& fabric, const Trace& trace,
                               const ReplayOptions& options);
  Replay(Replay&&) noexcept;
  ~Replay();

  ReplayResult run(const ReplayHooks& hooks);

 private:
  explicit Replay(std::unique_ptr<ReplayEngine> engine);
  std::unique_ptr<ReplayEngine> engine_;
};

}  // namespace farpage
