#include "tier/fetch/lane_engine.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "tier/fetch/lane_reads.h"

namespace farpage {
namespace {

constexpr uint32_t kPrefetchAhead = 8;
// A page that is read where the lane expects it, at the one node that it asked; and nothing else
// has happened to it.
constexpr PageFlags kPlain = {.reads_page = true};
constexpr PageFlags kPlainWhole = {.reads_page = true, .whole = true};

}  // namespace

Result<std::unique_ptr<LaneEngine>> LaneEngine::create(const std::shared_ptr<FleetLink>& fleet) {
  // A channel has room for a window of pages, and for a key of a question.
  FARPAGE_CHECK(fleet->fabric().capabilities().max_in_flight >= kMostReads * (kWindow + 1));
  auto memory = Mapping::anonymous(sizeof(Landing));
  if (!memory) return tl::unexpected(memory.error());
  auto region = fleet->fabric().register_local({memory->data(), memory->bytes()});
  if (!region) return tl::unexpected(region.error());
  const auto view = fleet->view();
  // With a register there may be more replicas in a later epoch.
  const bool hedges = view != nullptr && (fleet->has_register() || view->epoch.replicas > 1);
  const auto count = static_cast<uint32_t>(hedges ? fleet->options().hedge_places : 0);
  auto places =
      count > 0 ? PagePool::create(fleet->fabric(), view->epoch.page_bytes, count) : PagePool();
  if (!places) return tl::unexpected(places.error());
  std::unique_ptr<LaneEngine> engine(
      new LaneEngine(fleet, std::move(*memory), std::move(*region), std::move(*places)));
  if (auto opened = engine->open_path(); !opened) return tl::unexpected(opened.error());
  return engine;
}

LaneEngine::LaneEngine(std::shared_ptr<FleetLink> fleet, Mapping memory, Region region,
                       PagePool places)
    : fleet_(std::move(fleet)),
      runtime_(fleet_->runtime()),
      clock_(runtime_.clock()),
      alone_(fleet_->alone()),
      verify_(fleet_->options().verify),
      lands_with_crc_(fleet_->fabric().capabilities().checksums_landing),
      wants_crc_(verify_ && lands_with_crc_),
      memory_(std::move(memory)),
      region_(std::move(region)),
      landing_key_(region_.slice(0, 0).local_key),
      places_(std::move(places)),
      checks_(*fleet_->options().checkers, kPlaces),
      details_(kPlaces),
      most_asked_(fleet_->fabric().capabilities().max_in_flight - kMostReads * kWindow) {
  going_on_.reserve(2 * kPlaces);
  for (uint32_t index = kPlaces; index-- > 0;) {
    pages_[index].index = free_pages_[free_count_++] = static_cast<uint16_t>(index);
  }
  reserve_fetches(kWindow);
  fleet_->counters()->open(&counters_);
}

LaneEngine::~LaneEngine() {
  fleet_->counters()->close(&counters_);
  for (const auto& peer : peers_) peer->path.finish();
}

void LaneEngine::reserve_fetches(uint32_t more) {
  const size_t fetches = fetches_.size() + more;
  active_.reserve(fetches);
  fetches_.reserve(fetches);
  unused_fetches_.reserve(fetches);
  while (fetches_.size() < fetches) {
    fetches_.push_back(std::make_unique<FetchState>());
    unused_fetches_.push_back(fetches_.back().get());
  }
}

FetchState* LaneEngine::start(std::span<const PageRequest> requests,
                              std::span<PageVerdict> verdicts, uint64_t deadline_ns,
                              const FetchOptions& options) {
  FARPAGE_CHECK(requests.size() == verdicts.size());
  if (unused_fetches_.empty()) reserve_fetches(1);
  FetchState& fetch = *unused_fetches_.back();
  unused_fetches_.pop_back();
  fetch.requests = requests;
  fetch.verdicts = verdicts;
  fetch.deadline_ns = deadline_ns;
  fetch.options = options;
  fetch.next = fetch.put_off = fetch.put_off_at = 0;
  fetch.pending = requests.size();
  fetch.is_counted = false;
  std::fill(verdicts.begin(), verdicts.end(), PageVerdict{});
  fetch.started_ns = now_ns_ = clock_.now_ns();
  note_presence(0);
  if (!requests.empty()) {
    active_.push_back(&fetch);
    for (size_t at = active_.size() - 1; at > 0; --at) {
      if (active_[at - 1]->deadline_ns <= deadline_ns) break;
      std::swap(active_[at - 1], active_[at]);
    }
    unbegun_ += requests.size();
    look_after(deadline_ns);
    advance();
  }
  return &fetch;
}

// Pages of it that have not been posted end now, and those that have end when their reads do: the
// caller's change of mind costs the other fetches of the lane nothing.
void LaneEngine::recycle(FetchState* fetch) {
  fetch->deadline_ns = 0;
  if (const auto at = std::ranges::find(active_, fetch); at != active_.end()) {
    std::rotate(active_.begin(), at, at + 1);
    look_after(0);
  }
  wait_released(fetch, kNever);
  for (; fetch->lent != 0; fetch->lent &= fetch->lent - 1) {
    places_.give_back(static_cast<uint32_t>(std::countr_zero(fetch->lent)));
  }
  unused_fetches_.push_back(fetch);
}

bool LaneEngine::progress() {
  return is_at_work() && turn();
}

bool LaneEngine::turn() {
  size_t ended = collect();
  ended += judge();
  return advance() || ended > 0;
}

// Judges landed pages: the check, if that is still to come, and then the look at the clock. How
// many checks have ended.
[[gnu::always_inline]] inline size_t LaneEngine::judge() {
  if (checks_.any()) return check_and_conclude();
  look_at_clock();
  conclude();
  return 0;
}

size_t LaneEngine::check_and_conclude() {
  const size_t ended = check();
  look_at_clock();
  conclude_checked();
  conclude();
  return ended;
}

[[gnu::always_inline]] inline void LaneEngine::look_at_clock() {
  now_ns_ = clock_.now_ns();
  note_presence(ended_bytes_);  // no copy is slower than a byte in a nanosecond
  ended_bytes_ = 0;
  if (fleet_number_ != fleet_->published().number()) enter_epoch();
}

// Begins every check that the last look at the clock allows.
[[gnu::always_inline]] inline bool LaneEngine::advance() {
  if (now_ns_ >= due_ns_ || runtime_.changes() != changes_) keep_house();
  const bool begun = begin();
  const bool posted = post();
  if (std::exchange(any_ended_, false)) drop_ended();
  return begun || posted;
}

[[gnu::always_inline]] inline void LaneEngine::drop_ended() {
  auto kept = active_.begin();
  for (FetchState* fetch : active_) {
    if (fetch->pending > 0 || fetch->held > 0) *kept++ = fetch;
  }
  active_.erase(kept, active_.end());
}

// Collects completions of each channel in use; judges landed pages. How many operations that was.
[[gnu::always_inline]] inline size_t LaneEngine::collect() {
  size_t count = 0;
  for (size_t at = 0; at < busy_.size(); ++at) {
    count += collect(*busy_[at]);
    if (busy_.size() == 1 || ended_bytes_ < kPollBytes) continue;
    // Pages from the first node do not wait for those of the others.
    judge();
  }
  return count;
}

// `crc`: of the payload as it landed, where the backend counts it. Otherwise the result is unknown
// before its check has ended.
[[gnu::always_inline]] inline bool LaneEngine::has_payload(PageInFlight& page, uint32_t crc) {
  if (!verify_ || page.bytes == 0 || !enforced(Guard::kPayloadCrc)) return true;
  if (lands_with_crc_) return crc == landing().headers[page.index].payload_crc;
  begin_check(page);
  return false;
}

[[gnu::always_inline]] inline bool LaneEngine::is_located(const PageInFlight& page) const {
  return shows_exactly(landing().headers[page.index], page.request->key, page.version,
                       page.peer->path.view().incarnation, page.bytes);
}

bool LaneEngine::is_whole(PageInFlight& page, uint32_t crc) {
  const bool is_wanted =
      page.is.looked_up || !enforced(Guard::kExactHeader)
          ? lookup_of(page).judge(landing().headers[page.index]) == PageFinding::kGood
          : is_located(page);
  if (!is_wanted || !page.is.straight) return is_wanted && has_payload(page, crc);
  begin_copy(page);
  return false;
}

// Nothing is judged before all of the step has ended.
[[gnu::always_inline]] inline void LaneEngine::operation_ended(PageInFlight& page, uint8_t part,
                                                               uint32_t crc) {
  page.outstanding &= static_cast<uint8_t>(~part);
  if (page.outstanding != 0) {
    if (part == kPayloadPart) landed_crc_[page.index] = crc;
    return;
  }
  if (page.is == kPlain && enforced(Guard::kExactHeader)) {
    page.is.whole = is_located(page) && has_payload(page, crc);
  } else if (page.is.reads_page && !page.is.broken && !page.is.held) {
    const bool came_first = page.is.apart && part != kPayloadPart;
    page.is.whole = is_whole(page, came_first ? landed_crc_[page.index] : crc);
  }
  ended_bytes_ += page.bytes;
  ended_[ended_count_++] = page.index;
}

[[gnu::always_inline]] inline void LaneEngine::complete(LanePeer& peer,
                                                        const Completion& completion) {
  const OperationTag tag = OperationTag::of(completion.tag);
  if (tag.attempt >= kPlaces) return index_read_ended(peer, tag, completion.outcome);
  PageInFlight& page = pages_[tag.attempt];
  if (page.step != tag.step || (page.outstanding & tag.part) == 0) {
    counters_.strays.add();  // it has come before
    return;
  }
  peer.path.operation_ended();
  if (completion.outcome != Outcome::kOk) {
    const bool is_first = !page.is.broken;  // of the step
    page.is.broken = true;
    if (completion.outcome == Outcome::kRefused) page.failures = kMostFailures;
    if (completion.outcome == Outcome::kFailed && is_first) {
      ++page.failures;
      peer.link->breaker().failed(clock_.now_ns());
    }
  }
  operation_ended(page, tag.part, completion.crc);
}

size_t LaneEngine::collect(LanePeer& peer) {
  if (peer.path.has_ended()) return end_operations(peer);
  const size_t count = peer.path.poll(std::span(polled_).first(poll_batch_));
  for (size_t i = 0; i < count; ++i) complete(peer, polled_[i]);
  return count;
}

// The path's channels are gone, so that nothing of them can land any more.
size_t LaneEngine::end_operations(LanePeer& peer) {
  const size_t count = peer.path.in_flight();
  peer.path.forget_operations();
  for (PageInFlight& page : pages_) {
    if (page.peer != &peer || !page.is_read()) continue;
    page.is.broken = true;
    operation_ended(page, page.outstanding, 0);
  }
  index_reads_.operations_ended(peer);
  look_after(0);  // a path may be opened again
  return count;
}

// The page is whole, in its destination or in its hedge's place: it is ready, unless that came too
// late.
void LaneEngine::became_ready(PageInFlight& page) {
  if (is_late(page)) return attempt_failed(page);  // expire() gives the page its verdict
  page.peer->path.touched(page.slot);
  if (page.is.detailed) return became_ready_with_details(page);
  plain_ready(page);
}

[[gnu::always_inline]] inline void LaneEngine::plain_ready(PageInFlight& page) {
  give_verdict(*page.fetch, page.number(), Reason::kNone, page.version,
               {1, 1, 1, landing().headers[page.index].payload_crc});
  free_plain(page);
}

[[gnu::always_inline]] inline void LaneEngine::conclude(PageInFlight& page) {
  if (page.is != kPlainWhole || !alone_ || !in_time(page) || is_late(page)) {
    return conclude_other(page);
  }
  LanePeer& peer = *page.peer;
  if (page.bytes > 0 && page.posted_ns >= present_ns_) peer.window.ended(now_ns_ - page.posted_ns);
  peer.path.touched(page.slot);
  plain_ready(page);
}

// The clock after the check decides what becomes of those that have ended (protocol rule 19).
[[gnu::always_inline]] inline void LaneEngine::conclude() {
  for (uint32_t i = 0; i < ended_count_; ++i) {
    PageInFlight& page = pages_[ended_[i]];
    if (page.fetch == nullptr) continue;  // its twin's end was its own
    heard(*page.peer);
    conclude(page);
  }
  ended_count_ = 0;
  if (ready_.fetch != nullptr) count_them();
}

void LaneEngine::conclude_other(PageInFlight& page) {
  if (page.outstanding != 0) return set_aside(page);
  if (page.is.held) return released(page);
  if (!usable(page)) {
    page.is.broken = page.is.whole = false;
    return attempt_failed(page);
  }
  count_read(page);
  if (page.is.reads_page) return read_landed(page);
  lookup_of(page).index_landed(landing().buckets[page.index], page.peer->path.view().geometry);
  go_on(page);
}

// How long its peer took.
void LaneEngine::count_read(PageInFlight& page) {
  LanePeer& peer = *page.peer;
  if (!single_ || page.fetch->options.recompute_ns > 0) {
    peer.latency.add(now_ns_ - page.posted_ns);
    peer.link->breaker().succeeded();
  }
  const bool is_sample =
      page.is.reads_page && page.bytes > 0 && !page.is.straight && page.posted_ns >= present_ns_;
  if (is_sample) peer.window.ended(now_ns_ - page.posted_ns);
}

// A page whose verdict was given before its read had ended.
void LaneEngine::released(PageInFlight& page) {
  if (page.fetch != &orphaned_) {
    PageVerdict& verdict = page.fetch->verdicts[page.number()];
    if (!enforced(Guard::kVerdictCas) && !page.is.broken) verdict.verdict = Verdict::kReady;
    verdict.place = Place::kReleased;
    --page.fetch->held;
    any_ended_ = true;
  }
  free_page(page);
}

void LaneEngine::read_landed(PageInFlight& page) {
  const PageHeader& header = landing().headers[page.index];
  // A version that no node can have given out is a lie, though its CRCs are right.
  const bool is_good = page.is.whole && (alone_ || header.version <= newest_possible(page));
  if (!is_good || page.is.looked_up) {
    PageLookup& lookup = lookup_of(page);
    if (lookup.header_landed(header) == PageFinding::kGood) lookup.payload_landed(header, is_good);
    if (lookup.step() != PageLookup::Step::kReady) return go_on(page);
  }
  became_ready(page);
}

// Takes all that has ended at the peer.
void LaneEngine::drain(LanePeer& peer) {
  for (size_t before = SIZE_MAX; peer.path.in_flight() < before;) {
    before = peer.path.in_flight();
    collect(peer);
    if (checks_.any()) check();
    now_ns_ = clock_.now_ns();
    conclude_checked();
    conclude();
  }
}

// Pages that wait or go on, and then new ones. Whether any began. Nothing else writes operations,
// and what is written is posted before anything else happens.
[[gnu::always_inline]] inline bool LaneEngine::begin() {
  const uint32_t steps = steps_;
  const size_t unbegun = unbegun_;
  if (waiting_ > 0) begin_again();
  if (!going_on_.empty()) begin_steps();
  if (put_off_ > 0) begin_put_off();
  if (unbegun_ > 0) begin_pages();
  if (!going_on_.empty()) begin_steps();
  return steps_ != steps || unbegun_ != unbegun;
}

uint64_t LaneEngine::window_bytes() const {
  uint64_t bytes = 0;
  for (const LanePeer* peer : by_member_) bytes += peer->window.bytes();
  return bytes;
}

// No more of them than there are places beside the window.
LaneEngine::Parked LaneEngine::count_parked() const {
  Parked all = parked_;
  for (const LanePeer* peer : busy_) {
    if (!peer->silent) continue;
    all.pages += peer->attempts;
    all.bytes += peer->bytes;
  }
  all.pages = std::min<size_t>(all.pages, kPlaces - kWindow);
  return all;
}

// `is_warm`: there is one node, and a path to it.
[[gnu::always_inline]] inline void LaneEngine::begin_page(FetchState& fetch, uint32_t number,
                                                          bool is_warm) {
  PageInFlight& page = take_page(fetch, number);
  if (is_warm && fetch.options.recompute_ns == 0) {
    begin_at(*by_member_[0], page);
    return look_up(page);
  }
  begin_anew(page);
  choose(page);
}

// By deadline. Pages with much time leave room on the wire, and, where several nodes share the
// lane's window, a quarter of its places: who has little time waits for neither.
[[gnu::always_inline]] inline void LaneEngine::begin_pages() {
  uint64_t most_bytes = 0;
  bool is_warm = false;
  for (FetchState* fetch : active_) {
    if (fetch->next == fetch->requests.size() || now_ns_ >= fetch->deadline_ns) continue;
    if (most_bytes == 0) {
      most_bytes = single_ ? by_member_[0]->window.bytes() : window_bytes();
      is_warm = single_ && may_begin(*by_member_[0]);
    }
    const size_t most = most_of(*fetch);
    while (fetch->next < fetch->requests.size() && places_taken() < most) {
      if (bytes_under_way_ - parked().bytes >= most_bytes && !is_urgent(*fetch)) {
        if (single_) by_member_[0]->window.was_full();
        break;
      }
      const size_t ahead = fetch->next + kPrefetchAhead;
      if (is_warm && ahead < fetch->requests.size()) {
        by_member_[0]->link->locations().prefetch(fetch->requests[ahead].key);
      }
      --unbegun_;
      begin_page(*fetch, static_cast<uint32_t>(fetch->next++), is_warm);
    }
  }
}

[[gnu::always_inline]] inline bool LaneEngine::post() {
  bool posted = false;
  for (LanePeer* peer : busy_) {
    if (peer->written > 0) posted |= post(*peer);
  }
  return posted;
}

[[gnu::always_inline]] inline bool LaneEngine::post(LanePeer& peer) {
  uint64_t look = peer.path.view().reuse_ns;
  if (!single_ && peer.latency.known()) look = std::min(look, peer.latency.p98_ns());
  watch_ns_ = std::min(watch_ns_, now_ns_ + look);
  look_after(watch_ns_);
  counters_.posts.add();
  counters_.operations.add(std::exchange(peer.written, 0));
  if (!peer.path.post().ok()) lost(peer);
  return true;
}

// The channel is broken: what it had not begun has ended.
void LaneEngine::lost(LanePeer& peer) {
  drain(peer);
  give_up(peer);
}

const std::byte* LaneEngine::mapped_payload(const PageKey& key) const {
  const LanePeer& peer = *by_member_[view_->placement.replicas(key).primary()];
  const auto* direct = dynamic_cast<const DirectMemory*>(peer.path.channel());
  Location location;
  if (direct == nullptr || !peer.link->locations().find(key, location)) return nullptr;
  const uint64_t offset = peer.path.view().geometry.payload_offset(location.slot);
  const std::span<const std::byte> pool = direct->view(peer.path.pool());
  return offset < pool.size() ? pool.data() + offset : nullptr;
}

}  // namespace farpage
