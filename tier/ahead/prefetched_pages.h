#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "prefetch/importance/block_importance.h"
#include "prefetch/page_heap.h"
#include "prefetch/policy.h"
#include "prefetch/scheduler.h"
#include "tier/ahead/observed_access.h"
#include "tier/ahead/page_ahead.h"
#include "tier/ahead/page_numbering.h"
#include "tier/ahead/prefetch_options.h"
#include "tier/ahead/prefetch_transport.h"

namespace farpage {

// Pages fetched ahead, by a transport of their own into places of their own: those that the
// prefetcher expects, and those that were announced. A place belongs to one page until no operation
// writes to it any more, and then, if the page is demanded, to the demand until that gives it back.
// On one thread.
class PrefetchedPages final : public prefetch::PageSource {
 public:
  using PageNumber = prefetch::PageNumber;
  static constexpr uint32_t kNoPlace = UINT32_MAX;

  enum class Landing : uint8_t { kUnderWay, kWhole, kFailed };
  struct Place {
    Landing landing = Landing::kUnderWay;
    bool is_given_up = false;  // under way, and no demand waits for it
    PageNumber page = 0;       // until it is demanded
    uint64_t bytes = 0;
    const std::byte* payload = nullptr;  // kWhole
    Version version = 0;                 // kWhole
  };

  // `page_bytes`: the length of a page unless told otherwise.
  PrefetchedPages(const Clock& clock, const PrefetchOptions& options, uint64_t page_bytes,
                  std::unique_ptr<PrefetchTransport> transfers,
                  std::unique_ptr<prefetch::Prefetcher> prefetcher);

  void observe(std::span<const ObservedAccess> accesses);
  float importance(const PageKey& key) const;
  void mark_milestone(const PageKey& key);
  void announce(std::span<const PageKey> keys, uint64_t until_ns);
  void withdraw(std::span<const PageKey> keys);
  void set_near(std::span<const PageKey> keys, bool is_near);
  PageAhead look(const PageKey& key) const;
  void evict(std::span<const PageKey> keys);

  // The place of a page that is here or under way, which is the caller's from now on, and read no
  // second time; kNoPlace: it has to be fetched.
  uint32_t demand(const PageRequest& request);
  const Place& place(uint32_t place) const { return places_[place]; }
  uint32_t places() const { return static_cast<uint32_t>(places_.size()); }
  void give_back(uint32_t place);

  // A demand begins; and then what it felt, as the scheduler's.
  void on_demand_begun();
  void on_demand(prefetch::PrefetchWindow::Read read, uint64_t took_ns, bool beside) {
    scheduler_.on_demand(read, took_ns, beside);
  }
  void on_waited_in_vain() { scheduler_.on_waited_in_vain(); }

  bool is_under_way() const { return scheduler_.is_beside(); }
  // A turn: takes what has landed. Answers whether anything has.
  bool progress();
  // Answers whether any has begun.
  bool begin() {
    const uint64_t begun_before = scheduler_.account().begun;
    scheduler_.begin();
    transfers_->send();
    return scheduler_.account().begun > begun_before;
  }
  // When there is something to do that nothing tells of.
  uint64_t next_event_ns();
  // What lands comes over it; null: over none.
  Lane* lane() { return transfers_->lane(); }
  // Lets time pass until something may have landed, where that is not by lane().
  void wait(uint64_t until_ns) { transfers_->wait(until_ns); }

  size_t taken_places() const { return transfers_->taken(); }
  LaneStats stats() const { return transfers_->stats(); }
  PrefetchReport report() const;  // but for what demands have made of it

 private:
  struct Page {
    uint32_t place = kNoPlace;
    uint64_t payload_bytes = 0;
    uint64_t named_in = 0;   // the last plan that named it
    uint32_t announced = 0;  // so many times, and not withdrawn or demanded since
    uint64_t announced_until_ns = 0;
    bool is_observed = false;  // since it was last missed
    bool is_near = false;      // the engine has it
    bool is_resident = false;  // near or here, as the prefetcher was told
  };

  bool begin(PageNumber page) override;
  std::optional<PageNumber> number(const PageKey& key);
  void forget(PageNumber page);
  void end_announcement(PageNumber page);
  void end_overdue();
  void hear(ObservedAccess access);
  void weigh(PageNumber page, float mass);
  void follow_step(uint64_t step);
  void follow_other_sequence(std::span<const ObservedAccess> accesses);
  bool listens() const { return !is_silent_ && (!here_.empty() || scheduler_.waiting() > 0); }
  void listen();
  void plan(size_t heard);
  bool is_wanted(PageNumber page) const;
  // pages_ahead_landing.cc: what comes and goes.
  void take(uint32_t index, const PageVerdict& verdict);
  void expire();
  void make_room(PageNumber page);
  void evict(PageNumber page);
  void expire(PageNumber page);
  uint64_t bytes_of(const Page& page) const;
  void free_place_of(PageNumber page);
  void tell_residence(PageNumber page);

  const Clock& clock_;
  const PrefetchOptions options_;
  std::unique_ptr<prefetch::Prefetcher> prefetcher_;
  prefetch::Scheduler scheduler_;
  PageNumbering known_;
  prefetch::BlockImportance importance_;  // of known pages
  std::vector<Page> pages_;               // by number
  std::vector<uint32_t> here_;            // places of pages that were not demanded, oldest first
  prefetch::PageHeap announced_;          // that are so until then, by that time
  std::vector<PageNumber> named_;         // by the prefetcher
  std::vector<PageNumber> expected_;      // of those
  const uint64_t page_bytes_;             // of a place
  uint64_t demanded_bytes_ = 0;           // the length of the page that was demanded last
  uint64_t step_ = 0;                     // counted here, from the engine's steps
  uint64_t farthest_step_ = 0;            // of those that the engine has numbered
  uint64_t other_step_ = UINT64_MAX;      // the last one that was less
  uint64_t weighed_step_ = 0;             // the last one that was observed with a mass
  uint64_t heard_ns_ = 0;                 // when it last told of one
  bool has_planned_ = false;              // since the last demand began
  bool is_silent_ = false;                // it tells of none any more
  uint64_t accesses_ = 0;
  uint64_t plans_ = 0;
  PrefetchReport counts_;
  std::unique_ptr<PrefetchTransport> transfers_;
  std::vector<Place> places_;
};

}  // namespace farpage
