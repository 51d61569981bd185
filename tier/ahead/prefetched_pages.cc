#include "tier/ahead/prefetched_pages.h"

#include <algorithm>
#include <utility>

namespace farpage {

using prefetch::Scheduler;

namespace {

// By steps alone what was named would never be over where none is told of any more.
constexpr uint64_t kSilenceNs = 10 * kSecond;
// So that no number of the engine's, whatever it is, leads beyond all steps to come.
constexpr uint64_t kMostSteps = uint64_t{1} << 32;

}  // namespace

PrefetchedPages::PrefetchedPages(const Clock& clock, const PrefetchOptions& options,
                                 uint64_t page_bytes, std::unique_ptr<PrefetchTransport> transfers,
                                 std::unique_ptr<prefetch::Prefetcher> prefetcher)
    : clock_(clock),
      options_(options),
      prefetcher_(std::move(prefetcher)),
      scheduler_(options.scheduler, *this),
      known_(options.known_pages),
      importance_(prefetch::BlockImportance::make({.blocks = options.known_pages, .sink_blocks = 0})
                      .value()),
      pages_(options.known_pages),
      page_bytes_(page_bytes),
      transfers_(std::move(transfers)),
      places_(transfers_->places()) {
  scheduler_.reserve(options.known_pages);
  here_.reserve(places_.size());
  expected_.reserve(options.prefetch_pages);
}

void PrefetchedPages::observe(std::span<const ObservedAccess> accesses) {
  heard_ns_ = clock_.now_ns();
  is_silent_ = false;
  follow_other_sequence(accesses);
  for (const ObservedAccess& access : accesses) hear(access);
  expire();
  plan(accesses.size());
}

// Steps are those of the sequence that is farthest; each of another one, whose steps are all less,
// is one more.
void PrefetchedPages::follow_step(uint64_t step) {
  if (step <= farthest_step_) return;
  step_ += std::min(step - farthest_step_, kMostSteps);
  farthest_step_ = step;
}
void PrefetchedPages::follow_other_sequence(std::span<const ObservedAccess> accesses) {
  if (accesses.empty()) return;
  const uint64_t last = std::ranges::max(accesses, {}, &ObservedAccess::step).step;
  if (last >= farthest_step_ || last == other_step_) return;
  other_step_ = last;
  ++step_;
}

void PrefetchedPages::on_demand_begun() {
  if (!std::exchange(has_planned_, false)) scheduler_.on_unplanned_demand();
}

// After a while in which no step is told of, nothing is expected but what was announced.
void PrefetchedPages::listen() {
  if (clock_.now_ns() - heard_ns_ <= kSilenceNs) return;
  is_silent_ = true;
  ++plans_;
  scheduler_.plan({}, step_);
  expire();
}

void PrefetchedPages::hear(ObservedAccess access) {
  const bool is_known_head = access.head < options_.heads;
  counts_.malformed_events += mend(access) || !is_known_head ? 1 : 0;
  follow_step(access.step);
  const auto page = is_known_head ? number(access.key) : std::nullopt;
  if (!page) return;
  pages_[*page].is_observed = true;
  weigh(*page, access.mass);
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

// A step that tells of no mass takes nothing away.
void PrefetchedPages::weigh(PageNumber page, float mass) {
  if (mass == 0) return;
  if (std::exchange(weighed_step_, step_) != step_) importance_.end_step();
  importance_.add(page, mass);
}

float PrefetchedPages::importance(const PageKey& key) const {
  const auto page = known_.find(key);
  return page ? importance_.importance(*page) : 0;
}

std::optional<PrefetchedPages::PageNumber> PrefetchedPages::number(const PageKey& key) {
  const auto is_needed = [this](PageNumber page) {
    return scheduler_.waits(page) || scheduler_.state(page) != Scheduler::State::kNone;
  };
  return known_.number(key, is_needed, [this](PageNumber page) { forget(page); });
}

void PrefetchedPages::forget(PageNumber page) {
  if (pages_[page].is_resident) prefetcher_->on_evict(page);
  end_announcement(page);
  pages_[page] = {};
  importance_.forget(page);
  ++counts_.forgotten_pages;
  prefetcher_->on_forget(page);
}

// `heard`: so many that are demanded now may be named, too, and are not fetched ahead.
void PrefetchedPages::plan(size_t heard) {
  ++plans_;
  has_planned_ = true;
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

void PrefetchedPages::mark_milestone(const PageKey& key) {
  const auto page = known_.find(key);
  if (!page) {
    ++counts_.unknown_keys;
    return;
  }
  known_.use(*page);
  prefetcher_->on_milestone(*page);
}

void PrefetchedPages::announce(std::span<const PageKey> keys, uint64_t until_ns) {
  for (const PageKey& key : keys) {
    // Where no more may wait, what is known is not forgotten for it.
    if (!known_.find(key) && scheduler_.refuse()) continue;
    const auto page = number(key);
    if (!page) continue;
    Page& announced = pages_[*page];
    if (announced.announced++ == 0) announced.announced_until_ns = 0;
    announced.announced_until_ns = std::max(announced.announced_until_ns, until_ns);
    const auto until = static_cast<double>(announced.announced_until_ns);
    if (announced_.contains(*page)) {
      announced_.change(*page, until);
    } else if (until_ns != kNever) {
      announced_.push(*page, until);
    }
    scheduler_.announce(*page);
  }
}

// Withdrawn, demanded or forgotten.
void PrefetchedPages::end_announcement(PageNumber page) {
  pages_[page].announced = 0;
  if (announced_.contains(page)) announced_.remove(page);
}

// Those that were wanted by now.
void PrefetchedPages::end_overdue() {
  bool has_ended = false;
  while (announced_.size() > 0 && pages_[announced_.top()].announced_until_ns <= clock_.now_ns()) {
    const PageNumber page = announced_.top();
    end_announcement(page);
    scheduler_.withdraw(page);
    has_ended = true;
  }
  if (has_ended) expire();
}

uint64_t PrefetchedPages::next_event_ns() {
  uint64_t next_ns = kNever;
  if (announced_.size() > 0) next_ns = pages_[announced_.top()].announced_until_ns;
  return listens() ? std::min(next_ns, heard_ns_ + kSilenceNs + 1) : next_ns;
}

void PrefetchedPages::withdraw(std::span<const PageKey> keys) {
  for (const PageKey& key : keys) {
    const auto page = known_.find(key);
    if (!page) {
      ++counts_.unknown_keys;
      continue;
    }
    uint32_t& announced = pages_[*page].announced;
    if (announced > 0 && --announced > 0) continue;
    end_announcement(*page);
    scheduler_.withdraw(*page);
  }
  expire();
}

void PrefetchedPages::set_near(std::span<const PageKey> keys, bool is_near) {
  for (const PageKey& key : keys) {
    const auto page = is_near ? number(key) : known_.find(key);
    if (!page) continue;
    pages_[*page].is_near = is_near;
    if (is_near && pages_[*page].announced == 0) {
      scheduler_.cancel(*page);
      if (scheduler_.state(*page) == Scheduler::State::kHere) {
        std::erase(here_, pages_[*page].place);
        expire(*page);
      }
    }
    tell_residence(*page);
  }
}

uint32_t PrefetchedPages::demand(const PageRequest& request) {
  if (request.destination.bytes == 0) return kNoPlace;
  demanded_bytes_ = request.destination.bytes;
  const auto known = known_.find(request.key);
  if (!known) return kNoPlace;
  known_.use(*known);
  Page& page = pages_[*known];
  page.payload_bytes = request.destination.bytes;
  end_announcement(*known);
  const uint32_t place = page.place;
  if (place != kNoPlace && places_[place].bytes != request.destination.bytes) {
    ++counts_.outdated;
    evict(*known);
    prefetcher_->on_miss(*known);
    return kNoPlace;
  }
  const Scheduler::State was = scheduler_.demand(*known, step_);
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
