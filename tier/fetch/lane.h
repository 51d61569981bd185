#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "tier/fetch/index_question.h"
#include "tier/request/page_request.h"
#include "tier/stats/lane_stats.h"
#include "transport/counter.h"

namespace farpage {

class Lane;
class LaneEngine;
class CheckerFactory;
class PageCopier;
struct FetchState;
struct VerdictCounts;

// One fetch under way. Move-only. The destructor cancels what has not ended: pages that have not
// been asked for are dropped at once, and it returns when no read of the others can write to a
// destination any more, which is when those reads end, or `read_window` after they were posted. The
// other fetches of the lane go on meanwhile. A default-constructed Fetch is done and released.
//
// The requests, the verdicts and the destinations are lent to the fetch until it is released: a
// verdict's `place` may still change after it is done. It must not outlive its lane, and shares its
// thread.
class Fetch {
 public:
  Fetch() = default;
  Fetch(Fetch&& other) noexcept;
  Fetch& operator=(Fetch&& other) noexcept;
  ~Fetch();

  // Every page has its verdict.
  bool done() const;
  // ... and no destination is held any more.
  bool released() const;

  // Drives the lane until the fetch is done; that is by its deadline.
  void wait();
  // Drives the lane until it is released or `deadline_ns` has come; returns released().
  bool wait_released(uint64_t deadline_ns);

  // Counts the pages: ok for ready, failed for recompute. For an event loop: its eventfd is
  // readable, and its callback runs, once all pages have their verdict. The lane must be driven
  // meanwhile (progress()); the callback must not call it. Not of a default-constructed Fetch.
  CompletionCounter& counter();

 private:
  friend class Lane;
  Fetch(LaneEngine* engine, FetchState* state) : engine_(engine), state_(state) {}

  LaneEngine* engine_ = nullptr;
  FetchState* state_ = nullptr;
};

// One thread's data path to the nodes: fetches and nothing else. After warm-up a fetch allocates
// nothing, locks nothing, and on shm makes no system call. A lane belongs to the thread that uses
// it; different lanes share only the wait-free location cache. Made by Client::open_lane.
class Lane {
 public:
  static constexpr uint32_t kWindow = 128;  // pages under way at one time, at the most
  // ... with those at nodes that are silent, which count no longer.
  static constexpr uint32_t kPlaces = 2 * kWindow;

  Lane(Lane&&) noexcept;
  Lane& operator=(Lane&&) noexcept;
  ~Lane();

  // Starts a fetch of these pages, one verdict for each by `deadline_ns` (on Client's clock; one
  // that has passed gives recompute(stalled) at once). Never fails: what cannot be fetched is
  // `recompute`. It begins what there is room for, and leaves completions to the lane's driver.
  Fetch fetch(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
              uint64_t deadline_ns, const FetchOptions& options = {});

  // Takes memory for so many fetches at one time beside those that it has memory for, which is kept
  // until the lane ends: kWindow at first. Without it more take theirs the first time.
  void reserve_fetches(uint32_t more);

  // Whether a node has a page of this key now; false also when it cannot be asked by the
  // deadline.
  bool contains(const PageKey& key, uint64_t deadline_ns);

  // Looks keys up in the index of their primaries, where this process has it mapped (shm), at once.
  // False: an index is not mapped, a view has ended, or a fleet's primary has no entry for a key,
  // and another replica may have the page; the answers are undefined, and ask() answers.
  bool look_up(std::span<const PageKey> keys, std::span<KeyAnswer> answers);
  // ... where it is not mapped: reads both buckets of each key, in one round trip for as many as
  // the channel has room for beside the fetches' reads, and in as many as the rest needs; the
  // fetches of the lane go on meanwhile. A question is done by `deadline_ns`, or, where other
  // replicas may be asked in the other half, by half of the time until then. A fetch without
  // destinations answers for keys that stay unknown: their node could not be asked, or did not
  // answer in time, or its channel, its lease or the epoch ended meanwhile.
  IndexQuestion ask(std::span<const PageKey> keys, std::span<KeyAnswer> answers,
                    uint64_t deadline_ns);

  // Does what can be done without waiting; for those who watch a fetch's counter. Answers whether
  // anything moved.
  bool progress();
  // ... and if nothing moved, lets time pass until something may have, or until then.
  void wait(uint64_t until_ns);
  // ... of two lanes of one thread, until something may have moved in either.
  static void wait_for_either(Lane& lane, Lane& other, uint64_t until_ns);
  // From now on pages with a `straight_to` may be copied by it. It outlives the lane.
  void copy_straight(PageCopier& copier);
  // Payloads are checked by these, and not by the client's. Before the first fetch; they outlive
  // the lane.
  void check_with(CheckerFactory& checkers);

  // From now on any thread may interrupt() the lane, while it lives: a wait() returns early if an
  // interrupt came since the last one returned. For an owner who also waits for other threads'
  // work, and who looks for that after each wait().
  void allow_interrupts();
  void interrupt();

  LaneStats stats() const;
  // Of its fetches so far; any thread.
  VerdictCounts verdicts() const;

  // Where the page of this key was last seen, in its primary's memory mapped here; null if that is
  // unknown or the backend maps nothing. For measurements beside a fetch.
  const std::byte* mapped_payload(const PageKey& key) const;

 private:
  friend class Client;
  explicit Lane(std::unique_ptr<LaneEngine> engine);
  std::unique_ptr<LaneEngine> engine_;
};

}  // namespace farpage
