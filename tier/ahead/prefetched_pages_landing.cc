#include <algorithm>

#include "tier/ahead/prefetched_pages.h"

namespace farpage {

using prefetch::Scheduler;

bool PrefetchedPages::begin(PageNumber page) {
  make_room(page);
  Page& begun = pages_[page];
  const uint64_t bytes = bytes_of(begun);
  const auto taken =
      transfers_->begin(known_.key(page), bytes, clock_.now_ns() + options_.patience_ns);
  if (!taken) return false;
  places_[*taken] = {.page = page, .bytes = bytes};
  begun.place = *taken;
  return true;
}

// No page of another length is found: a page that was never demanded is taken to be as long as the
// last one that was, unless the options say how long pages are.
uint64_t PrefetchedPages::bytes_of(const Page& page) const {
  if (page.payload_bytes > 0) return std::min(page.payload_bytes, page_bytes_);
  if (options_.page_bytes > 0 || demanded_bytes_ == 0) return page_bytes_;
  return std::min(demanded_bytes_, page_bytes_);
}

// Of a page that the last plan names: what it does not name any more gives its place up.
void PrefetchedPages::make_room(PageNumber page) {
  if (transfers_->taken() < transfers_->places() || pages_[page].named_in != plans_) return;
  const auto is_outlived = [this](uint32_t place) {
    return pages_[places_[place].page].named_in != plans_;
  };
  const auto oldest = std::ranges::find_if(here_, is_outlived);
  if (oldest != here_.end()) evict(places_[*oldest].page);
}

bool PrefetchedPages::progress() {
  transfers_->progress();
  const bool has_moved_on = transfers_->has_moved_on();
  bool has_any = false;
  while (const auto ended = transfers_->next()) {
    take(ended->place, ended->verdict);
    has_any = true;
  }
  while (!here_.empty() && has_moved_on) evict(places_[here_.front()].page);
  end_overdue();
  if (listens()) listen();
  return has_any;
}

void PrefetchedPages::take(uint32_t index, const PageVerdict& verdict) {
  Place& place = places_[index];
  const bool is_whole = verdict.verdict == Verdict::kReady;
  place.landing = is_whole ? Landing::kWhole : Landing::kFailed;
  place.payload = verdict.landed;
  place.version = verdict.version;
  const PageNumber page = place.page;
  if (scheduler_.on_landed(page, is_whole) == Scheduler::State::kJoined) {
    if (place.is_given_up) transfers_->give_back(index);
    return;
  }
  if (!is_whole) {
    // It is not there: nothing is expected of it until it is seen again.
    if (verdict.reason == Reason::kMiss) pages_[page].is_observed = false;
    return free_place_of(page);
  }
  here_.push_back(index);
  tell_residence(page);
  expire();
}

// Until its time is over, or it is withdrawn, or the engine has it.
bool PrefetchedPages::is_wanted(PageNumber page) const {
  if (pages_[page].announced > 0) return true;
  if (pages_[page].is_near || is_silent_) return false;
  const uint64_t last_step = scheduler_.last_step(page);
  return last_step != UINT64_MAX && last_step >= step_;
}

void PrefetchedPages::expire() {
  std::erase_if(here_, [this](uint32_t place) {
    const PageNumber page = places_[place].page;
    if (is_wanted(page)) return false;
    expire(page);
    return true;
  });
}

// Of one that is here, once it is no more in the list of these.
void PrefetchedPages::expire(PageNumber page) {
  scheduler_.expire(page);
  free_place_of(page);
}

// Of one that is here; others stay as they are.
void PrefetchedPages::evict(PageNumber page) {
  if (scheduler_.state(page) != Scheduler::State::kHere) return;
  scheduler_.evict(page);
  std::erase(here_, pages_[page].place);
  free_place_of(page);
}

PageAhead PrefetchedPages::look(const PageKey& key) const {
  const auto page = known_.find(key);
  if (!page) return {};
  const Scheduler::State state = scheduler_.state(*page);
  if (state == Scheduler::State::kUnderWay) return {.state = PageAhead::State::kUnderWay};
  if (state != Scheduler::State::kHere) return {};
  const Place& place = places_[pages_[*page].place];
  return {PageAhead::State::kHere, place.payload, place.version};
}

void PrefetchedPages::evict(std::span<const PageKey> keys) {
  for (const PageKey& key : keys) {
    if (const auto page = known_.find(key)) evict(*page);
  }
}

void PrefetchedPages::free_place_of(PageNumber page) {
  transfers_->give_back(pages_[page].place);
  pages_[page].place = kNoPlace;
  tell_residence(page);
}

void PrefetchedPages::tell_residence(PageNumber page) {
  Page& told = pages_[page];
  const bool is_resident = told.is_near || scheduler_.state(page) == Scheduler::State::kHere;
  if (told.is_resident == is_resident) return;
  told.is_resident = is_resident;
  if (is_resident) {
    prefetcher_->on_insert(page);
  } else {
    prefetcher_->on_evict(page);
  }
}

void PrefetchedPages::give_back(uint32_t place) {
  if (places_[place].landing == Landing::kUnderWay) {
    places_[place].is_given_up = true;
  } else {
    transfers_->give_back(place);
  }
}

PrefetchReport PrefetchedPages::report() const {
  PrefetchReport report = counts_;
  report.pages = scheduler_.account();
  report.waiting = scheduler_.waiting();
  report.under_way = scheduler_.under_way();
  report.here = here_.size();
  report.taken_places = transfers_->taken();
  report.window_pages = scheduler_.window().pages();
  report.known_pages = known_.size();
  return report;
}

}  // namespace farpage
