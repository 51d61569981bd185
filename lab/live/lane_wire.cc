#include "lab/live/lane_wire.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "replay/page_content.h"

namespace farpage::live {
namespace {

using prefetch::Access;
using prefetch::PageNumber;

constexpr uint64_t kCompareNs = kMillisecond / 2;  // a page, and to spare

// For what is near, what may come ahead in a step, and what two steps demand.
uint64_t frames(const LaneWireOptions& options) {
  return options.budget_pages + options.budget_pages / 2 + 1 + 4 * options.step_pages;
}

PrefetchOptions lane_options(const LaneWireOptions& options, uint64_t pages) {
  const prefetch::SchedulerOptions& scheduler = options.scheduler;
  PrefetchOptions made;
  // Half of the budget may be held, all of a step's demands lent, and a few be given up.
  made.landing_pages = static_cast<uint32_t>(options.budget_pages / 2 + 1 + options.step_pages +
                                             scheduler.most_under_way);
  made.page_bytes = options.page_bytes;
  made.known_pages = static_cast<uint32_t>(pages + scheduler.most_waiting + made.landing_pages + 1);
  made.patience_ns = options.deadline_ns;
  made.prefetch_pages = static_cast<uint32_t>(options.prefetch_pages);
  made.heads = UINT32_MAX;
  made.scheduler = scheduler;
  return made;
}

}  // namespace

Result<std::unique_ptr<LaneWire>> LaneWire::open(Client& client, Fabric& fabric,
                                                 std::span<const PageKey> keys,
                                                 const LaneWireOptions& options, Idle idle) {
  auto pool = PagePool::create(fabric, options.page_bytes, static_cast<uint32_t>(frames(options)));
  if (!pool) return tl::unexpected(pool.error());
  auto plan = std::make_unique<StepPlan>();
  auto lane = PrefetchLane::open(client, lane_options(options, keys.size()),
                                 std::make_unique<PlannedPages>(*plan));
  if (!lane) return tl::unexpected(lane.error());
  return std::unique_ptr<LaneWire>(new LaneWire(client, std::move(*pool), std::move(plan),
                                                std::move(*lane), keys, options, std::move(idle)));
}

LaneWire::LaneWire(Client& client, PagePool pool, std::unique_ptr<StepPlan> plan, PrefetchLane lane,
                   std::span<const PageKey> keys, const LaneWireOptions& options, Idle idle)
    : client_(client),
      keys_(keys),
      options_(options),
      idle_(std::move(idle)),
      pool_(std::move(pool)),
      places_(keys.size()),
      plan_(std::move(plan)),
      lane_(std::move(lane)) {
  while (std::optional<PageLease> frame = pool_.take()) {
    // Touched here, so that no fetch pays for the memory's first use.
    std::fill_n(frame->slice().data, options.page_bytes, std::byte{0});
    free_.push_back(static_cast<uint32_t>(frames_.size()));
    frames_.push_back(std::move(*frame));
  }
}

vtime::Wire::State LaneWire::state(PageNumber page) const {
  switch (lane_.look(keys_[page]).state) {
    case PageAhead::State::kUnderWay:
      return State::kUnderWay;
    case PageAhead::State::kHere:
      return State::kHere;
    case PageAhead::State::kNone:
      break;
  }
  return State::kNone;
}

// The lane is told with the others: a demand is one fetch.
vtime::Wire::State LaneWire::demand(PageNumber page, uint64_t) {
  PagePlace& place = places_[page];
  if (place.is_asked) return place.is_joined ? State::kJoined : State::kNone;
  const State was = state(page);
  if (was == State::kNone) return was;
  ask(page);
  place.is_joined = was == State::kUnderWay;
  place.awaited = place.is_joined ? 1 : 0;
  return was;
}

void LaneWire::fetch(PageNumber page) {
  ask(page);
  ++places_[page].awaited;
}

void LaneWire::ask(PageNumber page) {
  if (!requests_.empty()) end_fetch();
  if (std::exchange(places_[page].is_asked, true)) return;
  place(page);
  asked_.push_back(page);
}

void LaneWire::on_access(const Access& access) {
  plan_->accesses.push_back(access);
}

void LaneWire::send() {
  if (asked_.empty() || !requests_.empty()) return;
  for (const PageNumber page : asked_) {
    open_.push_back(static_cast<uint32_t>(requests_.size()));
    requests_.push_back({keys_[page], 0, frames_[places_[page].frame].slice()});
  }
  verdicts_.assign(requests_.size(), {});
  // So that each can be made again elsewhere.
  compare_until(options_.step_pages);
  deadline_ns_ = now_ns() + options_.deadline_ns;
  fetch_ = lane_.fetch(requests_, verdicts_, deadline_ns_, {.fetch = {}, .allow_cached = true});
  // A page that is here has its verdict.
  settle();
}

std::optional<vtime::Wire::Landed> LaneWire::next(uint64_t until_ns) {
  while (true) {
    if (landed_.empty()) drive();
    if (!landed_.empty()) {
      const Landed landed = landed_.front();
      landed_.pop_front();
      return landed;
    }
    const uint64_t now = now_ns();
    if (now >= until_ns) return std::nullopt;
    const bool is_time_left = open_.empty() && until_ns - now > kCompareNs;
    if (is_time_left && !left_.empty()) {
      compare_left();
    } else {
      idle_(until_ns);
    }
  }
}

void LaneWire::plan(std::span<const PageNumber> expected, uint64_t step) {
  observed_.clear();
  for (const Access& access : plan_->accesses) {
    observed_.push_back({.key = keys_[access.page],
                         .step = step,
                         .head = access.head,
                         .mass = access.mass,
                         .score = access.score,
                         .similarity = access.similarity,
                         .category = access.category,
                         .entropy = access.entropy,
                         .margin = access.margin,
                         .mark = access.mark});
  }
  plan_->expected = expected;
  plan_->heard = 0;
  lane_.observe(observed_);
  plan_->expected = {};
  plan_->accesses.clear();
  named_.insert(named_.end(), expected.begin(), expected.end());
}

std::span<const PageNumber> LaneWire::arrived() {
  arrived_.clear();
  std::erase_if(named_, [&](PageNumber page) {
    const State is = state(page);
    if (is == State::kHere) arrived_.push_back(page);
    // It was to come again soon after it left, and does not.
    const PagePlace& place = places_[page];
    if (is == State::kNone && place.has_left && !place.is_asked) forget(page);
    return is != State::kUnderWay;
  });
  return arrived_;
}

// The lane keeps its own until the page is demanded, or its time is over.
void LaneWire::hold(PageNumber page) {
  const PageAhead ahead = lane_.look(keys_[page]);
  FARPAGE_CHECK(ahead.state == PageAhead::State::kHere);
  place(page);
  std::copy_n(ahead.payload, options_.page_bytes, bytes_of(places_[page].frame).data());
  places_[page].is_filled = true;
}

// One that the step has demanded is the demand's.
void LaneWire::evict(PageNumber page) {
  if (!places_[page].is_asked) lane_.evict({&keys_[page], 1});
}

void LaneWire::make(PageNumber page) {
  place(page);
  fill_page(bytes_of(places_[page].frame), keys_[page], kPutNumber);
  places_[page].is_filled = true;
}

void LaneWire::keep(PageNumber page) {
  lane_.set_near({&keys_[page], 1}, false);
  places_[page].has_left = true;
}

void LaneWire::forget(PageNumber page) {
  PagePlace& place = places_[page];
  FARPAGE_CHECK(!place.is_asked);
  if (place.frame != kNone) left_.push_back({page, std::exchange(place.frame, kNone)});
  place.is_filled = false;
}

// The oldest of those that were forgotten.
void LaneWire::compare_left() {
  compare(left_.front());
  free_.push_back(left_.front().frame);
  left_.pop_front();
}

void LaneWire::compare_until(uint64_t free_frames) {
  while (free_.size() < free_frames && !left_.empty()) compare_left();
}

void LaneWire::place(PageNumber page) {
  places_[page].has_left = false;
  uint32_t& frame = places_[page].frame;
  if (frame != kNone) return;
  compare_until(1);
  FARPAGE_CHECK(!free_.empty());
  frame = free_.back();
  free_.pop_back();
}

void LaneWire::drive() {
  lane_.progress();
  settle();
  if (!requests_.empty() && open_.empty() && fetch_.released()) end_fetch();
}

void LaneWire::settle() {
  std::erase_if(open_, [this](uint32_t index) {
    if (verdicts_[index].verdict == Verdict::kPending) return false;
    settle(index);
    return true;
  });
}

void LaneWire::settle(uint32_t index) {
  const PageNumber page = asked_[index];
  const PageVerdict& verdict = verdicts_[index];
  PagePlace& place = places_[page];
  const uint64_t now = now_ns();
  counts_.lateness_max_ns = std::max(counts_.lateness_max_ns, now - std::min(now, deadline_ns_));
  const bool is_ready = verdict.verdict == Verdict::kReady;
  if (!is_ready) {
    ++counts_.recompute[static_cast<size_t>(verdict.reason)];
    if (verdict.place == Place::kHeld) parked_.push_back(std::exchange(place.frame, kNone));
    make(page);
  } else if (!place.is_filled && verdict.landed != requests_[index].destination.data) {
    std::copy_n(verdict.landed, options_.page_bytes, bytes_of(place.frame).data());
  }
  place.is_filled = true;
  place.is_asked = false;
  const bool is_ahead = std::exchange(place.is_joined, false);
  for (; place.awaited > 0; --place.awaited) landed_.push_back({page, is_ahead, is_ready});
}

// Returns once no operation writes to the frames any more.
void LaneWire::end_fetch() {
  fetch_ = DemandFetch();
  free_.insert(free_.end(), parked_.begin(), parked_.end());
  parked_.clear();
  asked_.clear();
  requests_.clear();
}

const LiveCounts& LaneWire::end() {
  while (!left_.empty()) compare_left();
  for (PageNumber page = 0; page < places_.size(); ++page) {
    if (places_[page].frame != kNone) compare({page, places_[page].frame});
  }
  return counts_;
}

// Not while a step waits, as far as there are frames enough; and what was written since it landed
// is found too.
void LaneWire::compare(const Left& left) {
  counts_.wrong_bytes +=
      count_wrong_bytes(bytes_of(left.frame), keys_[left.page], {kPutNumber, kPutNumber});
}

std::span<std::byte> LaneWire::bytes_of(uint32_t frame) const {
  return {frames_[frame].slice().data, options_.page_bytes};
}

}  // namespace farpage::live
