#include "tier/pages_ahead.h"

#include <algorithm>
#include <utility>

namespace farpage {

using prefetch::Scheduler;

PagesAhead::PagesAhead(const Clock& clock, const PrefetchOptions& options, uint64_t page_bytes,
                       Lane lane, LandingPlaces landing,
                       std::unique_ptr<prefetch::Prefetcher> prefetcher)
    : clock_(clock),
      options_(options),
      prefetcher_(std::move(prefetcher)),
      scheduler_(options.scheduler, *this),
      known_(options.known_pages),
      pages_(options.known_pages),
      page_bytes_(page_bytes),
      lane_(std::move(lane)),
      landing_(std::move(landing)),
      places_(landing_.size()),
      fetches_(lane_, options.scheduler.most_under_way) {
  here_.reserve(places_.size());
}

void PagesAhead::observe(std::span<const ObservedAccess> accesses) {
  for (const ObservedAccess& access : accesses) hear(access);
  expire();
  plan(accesses.size());
}

void PagesAhead::hear(ObservedAccess access) {
  const bool is_known_head = access.head < options_.heads;
  counts_.malformed_events += mend(access) || !is_known_head ? 1 : 0;
  step_ = std::max(step_, access.step);
  const auto page = is_known_head ? number(access.key) : std::nullopt;
  if (!page) return;
  pages_[*page].is_observed = true;
  prefetcher_->on_access({.number = accesses_++,
                          .step = step_,
                          .page = *page,
                          .head = access.head,
                          .mass = access.mass,
                          .score = access.score,
                          .similarity = access.similarity,
                          .category = access.category,
                          .entropy = access.entropy,
                          .margin = access.margin,
                          .mark = access.mark});
}

std::optional<PagesAhead::PageNumber> PagesAhead::number(const PageKey& key) {
  const auto is_needed = [this](PageNumber page) {
    return scheduler_.waits(page) || scheduler_.state(page) != Scheduler::State::kNone;
  };
  return known_.number(key, is_needed, [this](PageNumber page) {
    pages_[page] = {};
    ++counts_.forgotten_pages;
    prefetcher_->on_forget(page);
  });
}

// `heard`: so many that are demanded now may be named, too, and are not fetched ahead.
void PagesAhead::plan(size_t heard) {
  ++plans_;
  named_.resize(options_.prefetch_pages + heard);
  const size_t count = std::min(prefetcher_->candidates(named_), named_.size());
  expected_.clear();
  for (const PageNumber page : std::span(named_).first(count)) {
    if (expected_.size() == options_.prefetch_pages) break;
    if (page >= known_.size() || !pages_[page].is_observed || pages_[page].is_near) continue;
    pages_[page].named_in = plans_;
    if (scheduler_.state(page) == Scheduler::State::kNone) expected_.push_back(page);
  }
  scheduler_.plan(expected_, step_);
}

void PagesAhead::mark_milestone(const PageKey& key) {
  const auto page = known_.find(key);
  if (!page) {
    ++counts_.unknown_keys;
    return;
  }
  known_.use(*page);
  prefetcher_->on_milestone(*page);
}

void PagesAhead::announce(std::span<const PageKey> keys) {
  for (const PageKey& key : keys) {
    const auto page = number(key);
    if (!page) continue;
    pages_[*page].is_announced = true;
    const PageNumber one = *page;
    scheduler_.announce({&one, 1});
  }
}

void PagesAhead::withdraw(std::span<const PageKey> keys) {
  for (const PageKey& key : keys) {
    const auto page = known_.find(key);
    if (!page) {
      ++counts_.unknown_keys;
      continue;
    }
    pages_[*page].is_announced = false;
    const PageNumber one = *page;
    scheduler_.withdraw({&one, 1});
  }
  expire();
}

void PagesAhead::set_near(std::span<const PageKey> keys, bool is_near) {
  for (const PageKey& key : keys) {
    const auto page = is_near ? number(key) : known_.find(key);
    if (!page) continue;
    pages_[*page].is_near = is_near;
    tell_residence(*page);
  }
}

uint32_t PagesAhead::demand(const PageRequest& request) {
  const auto known = known_.find(request.key);
  if (!known || request.destination.bytes == 0) return kNoPlace;
  known_.use(*known);
  Page& page = pages_[*known];
  page.payload_bytes = request.destination.bytes;
  page.is_announced = false;
  const uint32_t place = page.place;
  if (place != kNoPlace && places_[place].slice.bytes != request.destination.bytes) {
    ++counts_.outdated;
    evict(*known);
    prefetcher_->on_miss(*known);
    return kNoPlace;
  }
  const Scheduler::State was = scheduler_.demand(*known, step_).was;
  if (was == Scheduler::State::kHere) {
    std::erase(here_, place);
    page.place = kNoPlace;
    tell_residence(*known);
    return place;
  }
  prefetcher_->on_miss(*known);
  if (was != Scheduler::State::kUnderWay) return kNoPlace;
  page.place = kNoPlace;
  return place;
}

}  // namespace farpage
