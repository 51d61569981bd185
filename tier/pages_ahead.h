#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "prefetch/policy.h"
#include "prefetch/scheduler.h"
#include "tier/known_pages.h"
#include "tier/landing_places.h"
#include "tier/observed_access.h"
#include "tier/page_fetches.h"
#include "tier/prefetch_options.h"

namespace farpage {

// What is fetched ahead, over a lane of its own into places of its own: what the prefetcher expects
// of what it hears, and what was announced. A place belongs to one page until nobody writes to it
// any more, and then, if the page is demanded, to the demand until that gives it back. On one
// thread.
class PagesAhead final : public prefetch::PageSource {
 public:
  using PageNumber = prefetch::PageNumber;
  static constexpr uint32_t kNoPlace = UINT32_MAX;

  enum class Landing : uint8_t { kUnderWay, kWhole, kFailed };
  struct Place {
    Landing landing = Landing::kUnderWay;
    bool is_given_up = false;  // under way, and nobody waits for it
    PageNumber page = 0;       // until it is demanded
    Slice slice;
    Version version = 0;  // kWhole
  };

  // `page_bytes`: as long as a page is of which nobody has said otherwise.
  PagesAhead(const Clock& clock, const PrefetchOptions& options, uint64_t page_bytes, Lane lane,
             LandingPlaces landing, std::unique_ptr<prefetch::Prefetcher> prefetcher);

  void observe(std::span<const ObservedAccess> accesses);
  void mark_milestone(const PageKey& key);
  void announce(std::span<const PageKey> keys);
  void withdraw(std::span<const PageKey> keys);
  void set_near(std::span<const PageKey> keys, bool is_near);

  // The place of a page that is here or under way, which is the caller's from now on, and read no
  // second time; kNoPlace: it has to be fetched.
  uint32_t demand(const PageRequest& request);
  const Place& place(uint32_t place) const { return places_[place]; }
  void give_back(uint32_t place);
  void on_demand(uint64_t took_ns, bool beside) { scheduler_.on_demand(took_ns, beside); }

  bool is_under_way() const { return scheduler_.is_beside(); }
  // Takes what has landed. Answers whether anything has.
  bool progress();
  void begin() { scheduler_.begin(); }
  // Lets time pass until something may have landed.
  void wait(uint64_t until_ns) { fetches_.wait(until_ns); }

  LaneStats stats() const { return lane_.stats(); }
  PrefetchReport report() const;  // but for what demands have made of it

 private:
  struct Page {
    uint32_t place = kNoPlace;
    uint64_t payload_bytes = 0;
    uint64_t named_in = 0;      // the last plan that named it
    bool is_observed = false;   // since it was last missed
    bool is_announced = false;  // and not withdrawn or demanded since
    bool is_near = false;       // the engine has it
    bool is_resident = false;   // near or here, as the prefetcher was told
  };

  bool begin(PageNumber page) override;
  std::optional<PageNumber> number(const PageKey& key);
  void hear(ObservedAccess access);
  void plan(size_t heard);
  bool is_wanted(PageNumber page) const;
  // pages_ahead_landing.cc: what comes and goes.
  void take(uint32_t index, const PageVerdict& verdict);
  void expire();
  void make_room(PageNumber page);
  void evict(PageNumber page);
  void free_place_of(PageNumber page);
  void tell_residence(PageNumber page);

  const Clock& clock_;
  const PrefetchOptions options_;
  std::unique_ptr<prefetch::Prefetcher> prefetcher_;
  prefetch::Scheduler scheduler_;
  KnownPages known_;
  std::vector<Page> pages_;           // by number
  std::vector<uint32_t> here_;        // places of those that nobody has demanded, oldest first
  std::vector<PageNumber> named_;     // by the prefetcher
  std::vector<PageNumber> expected_;  // of those
  const uint64_t page_bytes_;
  uint64_t step_ = 0;
  uint64_t accesses_ = 0;
  uint64_t plans_ = 0;
  PrefetchReport counts_;
  Lane lane_;
  LandingPlaces landing_;
  std::vector<Place> places_;
  PageFetches fetches_;  // last: they end first, while what they write to still stands
};

}  // namespace farpage
