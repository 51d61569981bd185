#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tier/ahead/page_fetches.h"
#include "tier/ahead/prefetch_lane.h"
#include "tier/ahead/prefetched_pages.h"

namespace farpage {

// One demand under way; recycled.
struct DemandFetchState {
  enum class Way : uint8_t {
    kAsked,     // it comes, or does not, as the answer says
    kAhead,     // it is fetched ahead, or was
    kFetching,  // ... in vain, and is fetched by itself
  };
  struct Page {
    uint32_t index = 0;  // of its request
    Way way = Way::kAsked;
    uint32_t answer = 0;  // of its own or, of kAhead, of its header
    uint32_t place = PrefetchedPages::kNoPlace;
    uint32_t fetch = 0;  // kFetching
    uint64_t begun_ns = 0;
  };

  std::span<const PageRequest> requests;
  std::span<PageVerdict> verdicts;
  uint64_t started_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t patience_ns = 0;  // by then what is under way ahead is not waited for any more
  size_t pending = 0;        // without a verdict
  FetchOptions again = {};   // of what is fetched by itself
  uint64_t beside_ns = 0;    // since when something is under way ahead; kNever: nothing was
  bool is_direct = false;    // nothing of it was fetched ahead: the lane gives the verdicts
  bool is_told = false;      // how long it took
  bool has_felt = false;     // ... that it waited in vain
  bool in_use = false;
  std::vector<PageRequest> asked;    // over the lane, at once
  std::vector<PageVerdict> answers;  // to these
  std::vector<Page> open;            // without a verdict, or held
  std::vector<uint32_t> lent;        // places that pages lie in
  Fetch batch;

  bool done() const { return is_direct ? batch.done() : pending == 0; }
  bool released() const { return batch.released() && (is_direct || open.empty()); }
};

// Fetches that are demanded, over a lane of their own, with what was fetched ahead. On one thread.
class DemandFetches {
 public:
  DemandFetches(const Clock& clock, Lane lane, PrefetchedPages& ahead);

  DemandFetchState* start(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
                          uint64_t deadline_ns, const DemandOptions& options);
  void recycle(DemandFetchState* demand);

  // Answers whether anything moved.
  bool progress() { return lane_.progress(); }
  // Gives the verdicts that can be given.
  void judge();
  bool is_any_pending() const {
    return std::ranges::any_of(active_, [](const auto* demand) { return !demand->done(); });
  }
  // A page that is demanded is under way ahead.
  bool is_ahead_awaited() const;
  // Something has begun to come ahead, behind all that is demanded.
  void on_begun_ahead();
  // Whether a demand has reads of its own under way.
  bool is_reading() const;
  // When something is due that lane() does not know of.
  uint64_t next_event_ns() const;
  Lane& lane() { return lane_; }

  LaneStats stats() const { return lane_.stats(); }
  void add_to(PrefetchReport& report) const;

 private:
  using Way = DemandFetchState::Way;
  using Page = DemandFetchState::Page;
  static constexpr uint32_t kNone = UINT32_MAX;

  DemandFetchState& unused();
  bool is_awaited(const Page& page) const;
  void ask(DemandFetchState& demand, uint32_t index, uint32_t place, bool allow_cached);
  void judge(DemandFetchState& demand);
  // demand_verdicts.cc: of one page. These answer whether that was all there is to do about it.
  bool judge(DemandFetchState& demand, Page& page);
  bool judge_ahead(DemandFetchState& demand, Page& page);
  bool use(DemandFetchState& demand, Page& page, const PageVerdict* header);
  bool fetch_again(DemandFetchState& demand, Page& page);
  static PageVerdict since_start(const DemandFetchState& demand, const Page& page,
                                 PageVerdict verdict);
  bool follow(DemandFetchState& demand, const Page& page, const PageVerdict& answer);
  void settle(DemandFetchState& demand, const Page& page, PageVerdict verdict);
  void stall(DemandFetchState& demand, const Page& page);
  void leave_place(Page& page);
  void tell_window(DemandFetchState& demand);

  const Clock& clock_;
  PrefetchedPages& ahead_;
  std::vector<std::unique_ptr<DemandFetchState>> states_;
  std::vector<DemandFetchState*> active_;
  uint64_t lent_ = 0;
  uint64_t outdated_ = 0;
  uint64_t given_up_ = 0;
  Lane lane_;
  PageFetches again_;
};

}  // namespace farpage
