#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "prefetch/policy.h"
#include "tier/ahead/observed_access.h"
#include "tier/ahead/page_ahead.h"
#include "tier/ahead/prefetch_options.h"
#include "tier/client.h"
#include "tier/request/page_request.h"

namespace farpage {

class PrefetchEngine;
struct DemandFetchState;

struct DemandOptions {
  FetchOptions fetch = {};
  // Of a page that was fetched ahead its own min_version binds alone; otherwise a header read begun
  // since the demand began has to show the same version (protocol rule 2).
  bool allow_cached = false;
};

// Pages that are demanded, as a Fetch, but for where they lie: one that was fetched ahead lies in a
// place of the lane's own (PageVerdict::landed), lent until the DemandFetch goes, and its
// destination is not written. Move-only; must not outlive its lane, and shares its thread.
//
// The requests, the verdicts and the destinations are lent to it until it is released. The
// destructor gives a page that has no verdict yet recompute(stalled).
class DemandFetch {
 public:
  DemandFetch() = default;
  DemandFetch(DemandFetch&& other) noexcept;
  DemandFetch& operator=(DemandFetch&& other) noexcept;
  ~DemandFetch();

  // Every page has its verdict.
  bool done() const;
  // ... and no destination is held any more.
  bool released() const;

  // Drives the lane until it is done; that is by its deadline.
  void wait();
  // Drives the lane until it is released or `deadline_ns` has come; returns released().
  bool wait_released(uint64_t deadline_ns);

 private:
  friend class PrefetchLane;
  DemandFetch(PrefetchEngine* engine, DemandFetchState* state) : engine_(engine), state_(state) {}

  PrefetchEngine* engine_ = nullptr;
  DemandFetchState* state_ = nullptr;
};

// Called by an engine's thread to have pages there before it asks for them. It passes accesses to a
// prefetcher, and fetches the pages that this one expects, over a lane of its own and as far as
// demands do not feel it, into memory of this lane's own. On one thread, which has to call
// progress() now and then: nothing lands meanwhile. After warm-up it allocates nothing and locks
// nothing, as far as its prefetcher does not, and nothing is pushed. The client outlives it, and it
// its DemandFetches.
class PrefetchLane {
 public:
  // Takes two of the lanes that the nodes offer (node.max_lanes), or one and a push lane. kInvalid:
  // as options.validate(), and Client::open_push_lane();
  // kUnavailable: no node can be reached, and no page_bytes is set.
  static Result<PrefetchLane> open(Client& client, const PrefetchOptions& options,
                                   std::unique_ptr<prefetch::Prefetcher> prefetcher);
  PrefetchLane(PrefetchLane&&) noexcept;
  PrefetchLane& operator=(PrefetchLane&&) noexcept;
  ~PrefetchLane();

  // The engine's accesses in a step, near or not; asks the prefetcher for the next pages, whose
  // transfers begin with progress(). A step may be any number: where all that are told of are less
  // than one before, they are of another sequence, and each is one more step of all.
  void observe(std::span<const ObservedAccess> accesses);
  // How much attention a page gets lately, 0 to 1, of what was observed with its mass: a moving
  // average over the steps (BlockImportance). 0 of what is not known.
  float importance(const PageKey& key) const;
  // An engine's own word that a page is worth coming back to. Of a page never heard of it is
  // counted, and nothing else.
  void mark_milestone(const PageKey& key);

  // A request waits for its turn, and these are its pages: they are fetched once nothing likelier
  // waits, and stay until they are demanded, or withdrawn as often as announced, or have to make
  // room. Those that are not demanded by `until_ns` (on Client's clock; of several announcements of
  // a page the last) are withdrawn then.
  void announce(std::span<const PageKey> keys, uint64_t until_ns = kNever);
  void withdraw(std::span<const PageKey> keys);

  // The engine has them in memory of its own from now on, or no more: they are not fetched ahead
  // meanwhile, unless they are announced. Without this call, the lane fetches pages that the engine
  // holds.
  void set_near(std::span<const PageKey> keys, bool is_near);
  // Whether a page is here, say to copy it on before it is demanded. No demand: nothing changes.
  PageAhead look(const PageKey& key) const;
  // Those of them that are here give their places back.
  void evict(std::span<const PageKey> keys);

  // As Lane::fetch. Pages that are here, or under way, are not read again; the others go at once,
  // over a lane that no prefetch uses.
  DemandFetch fetch(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
                    uint64_t deadline_ns, const DemandOptions& options = {});

  // Does what can be done without waiting, for demands first. Answers whether anything moved.
  bool progress();
  // As Lane::wait, for all that the lane has under way or waits for.
  void wait(uint64_t until_ns);
  // As Lane's.
  void allow_interrupts();
  void interrupt();

  // Of the reads for demands, and of those for prefetches.
  LaneStats demand_stats() const;
  LaneStats prefetch_stats() const;
  // Places of the landing that are in use, as report() has it.
  size_t taken_places() const;
  PrefetchReport report() const;
  // report() as metrics, docs/metrics.md; on the lane's thread.
  void describe(MetricVisitor& visitor) const;
  // ... and as a few lines for people.
  std::string status() const;

 private:
  explicit PrefetchLane(std::unique_ptr<PrefetchEngine> engine);
  std::unique_ptr<PrefetchEngine> engine_;
};

}  // namespace farpage
