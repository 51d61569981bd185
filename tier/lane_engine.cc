#include "tier/lane_engine.h"

#include <algorithm>

#include "base/check.h"
#include "integrity/crc32c.h"
#include "pagetable/guards.h"

namespace farpage {
namespace {

// As many bytes as one poll may land before verdicts are given: more would make the first of them
// late.
constexpr uint64_t kPollBytes = 256 * kKiB;
// As many as are under way at one time: a backend that copies must get through them well within L.
constexpr uint64_t kWindowBytes = 32 * kMiB;
constexpr uint32_t kPrefetchAhead = 8;

}  // namespace

Result<std::unique_ptr<LaneEngine>> LaneEngine::create(const std::shared_ptr<FleetLink>& fleet) {
  auto memory = Mapping::anonymous(sizeof(Landing));
  if (!memory) return tl::unexpected(memory.error());
  auto region = fleet->fabric().register_local({memory->data(), memory->bytes()});
  if (!region) return tl::unexpected(region.error());
  const auto view = fleet->view();
  // With a register there may be more replicas in a later epoch.
  const bool hedges = view != nullptr && (fleet->has_register() || view->epoch.replicas > 1);
  auto places = HedgePlaces::create(fleet->fabric(), hedges ? fleet->options().hedge_places : 0,
                                    hedges ? view->epoch.page_bytes : 0);
  if (!places) return tl::unexpected(places.error());
  std::unique_ptr<LaneEngine> engine(
      new LaneEngine(fleet, std::move(*memory), std::move(*region), std::move(*places)));
  if (auto opened = engine->open_path(); !opened) return tl::unexpected(opened.error());
  return engine;
}

LaneEngine::LaneEngine(std::shared_ptr<FleetLink> fleet, Mapping memory, Region region,
                       HedgePlaces places)
    : fleet_(std::move(fleet)),
      clock_(fleet_->runtime().clock()),
      alone_(fleet_->alone()),
      verify_(fleet_->options().verify),
      lands_with_crc_(fleet_->fabric().capabilities().checksums_landing),
      memory_(std::move(memory)),
      region_(std::move(region)),
      places_(std::move(places)) {
  for (uint32_t index = kWindow; index-- > 0;) {
    attempts_[index].index = index;
    free_attempts_[free_count_++] = index;
  }
  landed_.reserve(kPollBatch);
  reserve_fetches(kWindow);
  fleet_->counters()->open(&counters_);
}

LaneEngine::~LaneEngine() {
  fleet_->counters()->close(&counters_);
  for (const auto& peer : peers_) peer->path.finish();
}

Slice LaneEngine::landing_slice(const void* part, uint64_t bytes) const {
  const auto offset = static_cast<uint64_t>(static_cast<const std::byte*>(part) - memory_.data());
  return region_.slice(offset, bytes);
}

void LaneEngine::reserve_fetches(uint32_t more) {
  const size_t fetches = fetches_.size() + more;
  active_.reserve(fetches);
  fetches_.reserve(fetches);
  while (fetches_.size() < fetches) fetches_.push_back(std::make_unique<FetchState>());
}

FetchState* LaneEngine::start(std::span<const PageRequest> requests,
                              std::span<PageVerdict> verdicts, uint64_t deadline_ns,
                              const FetchOptions& options) {
  FARPAGE_CHECK(requests.size() == verdicts.size());
  auto unused = std::find_if(fetches_.begin(), fetches_.end(),
                             [](const auto& fetch) { return !fetch->in_use; });
  if (unused == fetches_.end()) {
    fetches_.push_back(std::make_unique<FetchState>());
    unused = fetches_.end() - 1;
  }
  FetchState& fetch = **unused;
  fetch.requests = requests;
  fetch.verdicts = verdicts;
  fetch.deadline_ns = deadline_ns;
  fetch.options = options;
  fetch.next = 0;
  fetch.pending = requests.size();
  fetch.held = 0;
  fetch.in_use = true;
  fetch.counter.reset(static_cast<uint32_t>(requests.size()));
  std::fill(verdicts.begin(), verdicts.end(), PageVerdict{});
  fetch.started_ns = now_ns_ = clock_.now_ns();
  if (!requests.empty()) {
    const auto after = std::ranges::upper_bound(active_, deadline_ns, {}, &FetchState::deadline_ns);
    active_.insert(after, &fetch);
  }
  if (!active_.empty()) turn();
  return &fetch;
}

// Pages of it that have not been posted end now, and those that have end when their reads do: the
// caller's change of mind costs the other fetches of the lane nothing.
void LaneEngine::recycle(FetchState* fetch) {
  fetch->deadline_ns = 0;
  if (const auto at = std::ranges::find(active_, fetch); at != active_.end()) {
    std::rotate(active_.begin(), at, at + 1);
  }
  wait_released(fetch, kNever);
  places_.give_back(fetch->lent);
  fetch->lent = 0;
  fetch->in_use = false;
}

Result<void> LaneEngine::open_path() {
  now_ns_ = clock_.now_ns();
  const uint64_t deadline = now_ns_ + fleet_->options().connect_ms * kMillisecond;
  while (true) {
    if (fleet_number_ != fleet_->number()) enter_epoch();
    for (const auto& peer : peers_) advance_path(*peer);
    const auto is_open = [](const auto& peer) { return peer->path.is_open(); };
    if (std::ranges::any_of(peers_, is_open)) return {};
    const bool late = now_ns_ >= deadline;
    const bool hopeless = std::ranges::all_of(
        peers_, [](const auto& peer) { return peer->path.error() && !peer->path.lost_link(); });
    for (const auto& peer : peers_) {
      if (peer->path.error() && (late || hopeless)) return tl::unexpected(*peer->path.error());
    }
    if (late) {
      return fail(Code::kTimeout, "the memory node has opened no lane in client.connect_ms");
    }
    wait(deadline);
    now_ns_ = clock_.now_ns();
  }
}

// Makes the peers that have joined, once for each.
void LaneEngine::enter_epoch() {
  fleet_number_ = fleet_->number();
  const auto view = fleet_->view();
  if (view == nullptr) return;
  view_ = view;
  single_ = view_->links.size() == 1;
  by_member_.clear();
  for (const auto& peer : peers_) peer->member = false;
  any_former_ = true;
  for (size_t member = 0; member < view_->links.size(); ++member) {
    const auto& link = view_->links[member];
    auto known = std::ranges::find(peers_, link, &LanePeer::link);
    if (known == peers_.end()) {
      peers_.push_back(std::make_unique<LanePeer>(link));
      peers_.back()->queue.reserve(2 * kWindow);
      known = peers_.end() - 1;
    }
    LanePeer& peer = **known;
    peer.member = true;
    peer.any_run = !fleet_->has_register();
    peer.incarnation = view_->epoch.members[member].incarnation;
    by_member_.push_back(&peer);
  }
  for (Attempt& attempt : attempts_) {
    if (attempt.outstanding > 0 && !attempt.held && !attempt.hedge) outlive_epoch(attempt);
  }
  watch_ns_ = now_ns_;
}

bool LaneEngine::progress() {
  if (active_.empty() && in_flight() == 0) return false;
  now_ns_ = clock_.now_ns();
  return turn();
}

// Begin what the window has room for, post it, take what has ended, give the verdicts.
bool LaneEngine::turn() {
  was_away_ = !has_waited_ && now_ns_ - turned_ns_ > TransferWindow::kQueueNs;
  has_waited_ = false;
  turned_ns_ = now_ns_;
  if (fleet_number_ != fleet_->number()) enter_epoch();
  for (const auto& peer : peers_) {
    if (peer->path.is_mute()) end_path(*peer);
    if (!peer->member || !peer->path.is_current()) advance_path(*peer);
  }
  if (any_former_) drop_former();
  begin_pages();
  size_t moved = 0;
  for (const auto& peer : peers_) moved += post_queued(*peer);
  for (const auto& peer : peers_) moved += poll_completions(*peer);
  sweep();
  for (const auto& peer : peers_) {
    if (!peer->queue.empty()) moved += post_queued(*peer) + peer->queue.size();
  }
  return moved > 0;
}

void LaneEngine::advance_path(LanePeer& peer) {
  if (peer.path.outdated() || (!peer.member && peer.path.is_open())) {
    cancel_queued(peer);  // what is queued was made for it
    peer.path.end();
  }
  if (!peer.member || !peer.path.advance(now_ns_)) return;
  watch_ns_ = now_ns_;  // there is one more to ask
  const uint64_t page_bytes = peer.path.view().geometry.page_bytes;
  if (page_bytes == page_bytes_) return;
  page_bytes_ = page_bytes;
  window_ = std::clamp<size_t>(kWindowBytes / page_bytes, 2, kWindow);
  poll_batch_ = std::clamp<size_t>(kPollBytes / page_bytes, 1, kPollBatch);
}

// A node that has left the epoch costs no turn anything once what was read there has ended.
void LaneEngine::drop_former() {
  std::erase_if(peers_, [](const auto& peer) {
    return !peer->member && peer->attempts == 0 && peer->path.at_rest();
  });
  any_former_ = !std::ranges::all_of(peers_, &LanePeer::member);
}

uint64_t LaneEngine::window_bytes() const {
  uint64_t bytes = 0;
  for (const LanePeer* peer : by_member_) bytes += peer->window.bytes();
  return bytes;
}

// By deadline. Pages with much time leave room on the wire, and, where several nodes share the
// lane's window, a quarter of its places: who has little time waits for neither.
void LaneEngine::begin_pages() {
  const uint64_t most_bytes = window_bytes();
  for (FetchState* fetch : active_) {
    if (now_ns_ >= fetch->deadline_ns) continue;
    const bool urgent = is_urgent(*fetch);
    const size_t most = urgent || single_ ? window_ : window_ - window_ / 4;
    while (fetch->next < fetch->requests.size() && kWindow - free_count_ < most) {
      if (!urgent && bytes_under_way_ >= most_bytes) {
        if (single_) by_member_[0]->window.was_full();
        break;
      }
      const size_t ahead = fetch->next + kPrefetchAhead;
      if (single_ && by_member_[0]->path.is_open() && ahead < fetch->requests.size()) {
        by_member_[0]->link->locations().prefetch(fetch->requests[ahead].key);
      }
      begin(*fetch, static_cast<uint32_t>(fetch->next++));
    }
  }
}

LaneEngine::Attempt& LaneEngine::take_attempt(FetchState& fetch, uint32_t page) {
  Attempt& attempt = attempts_[free_attempts_[--free_count_]];
  attempt.fetch = &fetch;
  attempt.page = page;
  attempt.bytes = fetch.requests[page].destination.bytes;
  bytes_under_way_ += attempt.bytes;
  return attempt;
}

void LaneEngine::begin(FetchState& fetch, uint32_t page) {
  Attempt& attempt = take_attempt(fetch, page);
  LanePeer& only = *by_member_[0];
  if (!single_ || !only.may_begin() || fetch.options.recompute_ns > 0) return choose(attempt);
  attempt.epoch = fleet_number_;
  attempt.history.asked = attempt.history.under_way = replica(0);
  attempt.history.attempts = 1;
  begin_at(only, attempt);
  look_up(attempt);
}

void LaneEngine::look_up(Attempt& attempt) {
  const PageRequest& request = attempt.fetch->requests[attempt.page];
  const View& view = attempt.peer->path.view();
  Location location;
  const bool located = attempt.peer->link->locations().find(request.key, location);
  attempt.lookup.begin(request, located ? &location : nullptr, view.geometry, view.incarnation);
  if (attempt.lookup.step() == PageLookup::Step::kReadPage) counters_.located.add();
  queue_step(attempt);
}

// Queues the reads that the page's next step asks for, or hears what the replica has said.
void LaneEngine::queue_step(Attempt& attempt) {
  const PageLookup::Step step = attempt.lookup.step();
  if (step == PageLookup::Step::kRecompute) {
    return replica_said(attempt, attempt.lookup.reason());
  }
  LanePeer& peer = *attempt.peer;
  if (!peer.path.is_open()) return wait_again(attempt);
  const uint32_t index = attempt.index;
  const Geometry& geometry = peer.path.view().geometry;
  const PageRequest& request = attempt.fetch->requests[attempt.page];
  Operation operation;
  ++attempt.step;
  attempt.posted_ns = now_ns_;
  operation.alone = attempt.failures > 0;  // perhaps for another page's sake
  const auto queue = [&](uint8_t part) {
    operation.tag = OperationTag{attempt.step, part, static_cast<uint16_t>(index)}.value();
    attempt.outstanding |= part;
    peer.queue.push_back(operation);
  };
  if (step == PageLookup::Step::kReadIndex) {
    counters_.index_looks.add();
    operation.remote = peer.path.index();
    operation.local_count = 1;
    const auto homes = key_buckets(request.key, geometry.buckets);
    for (size_t i = 0; i < homes.size(); ++i) {
      operation.remote_offset = homes[i] * sizeof(Bucket);
      operation.local[0] = landing_slice(&landing().buckets[index][i], sizeof(Bucket));
      queue(static_cast<uint8_t>(1u << i));
    }
    return;
  }
  FARPAGE_CHECK(step == PageLookup::Step::kReadPage);
  PageHeader& header = landing().headers[index];
  // So that a read that lands nothing shows nothing (protocol rule 18).
  if (on(Guard::kZeroLanding)) header.live = 0;
  operation.remote = peer.path.pool();
  operation.remote_offset = geometry.slot_offset(attempt.lookup.slot());
  operation.local[0] = landing_slice(&header, sizeof header);
  operation.local[1] = destination(attempt);
  operation.local_count = request.destination.bytes > 0 ? 2 : 1;
  operation.wants_crc = verify_ && lands_with_crc_ && request.destination.bytes > 0;
  queue(1);
}

size_t LaneEngine::post_queued(LanePeer& peer) {
  std::vector<Operation>& queued = peer.queue;
  if (queued.empty() || !peer.path.is_open()) return 0;
  if (!may_read() || !peer.is_of_epoch() || !peer.path.view().valid(now_ns_)) {
    cancel_queued(peer);
    return 0;
  }
  const auto deadline_of = [this](const Operation& operation) {
    return attempts_[OperationTag::of(operation.tag).attempt].fetch->deadline_ns;
  };
  uint64_t look = peer.path.view().reuse_ns;
  if (!single_ && peer.latency.known()) look = std::min(look, peer.latency.p98_ns());
  watch_ns_ = std::min(watch_ns_, now_ns_ + look);
  // Runs of one fetch, because a backend that copies stops at the deadline that a post names.
  size_t at = 0;
  while (at < queued.size()) {
    const uint64_t deadline = deadline_of(queued[at]);
    size_t end = at + 1;
    while (end < queued.size() && deadline_of(queued[end]) == deadline) ++end;
    const auto run = std::span<const Operation>(queued).subspan(at, end - at);
    for (const Operation& operation : run) {
      attempts_[OperationTag::of(operation.tag).attempt].posted_ns = now_ns_;
    }
    const PostResult posted = peer.path.post(run, deadline);
    counters_.posts.add();
    counters_.operations.add(posted.accepted);
    at += posted.accepted;
    if (posted.status.code == Code::kInvalid || posted.status.code == Code::kDenied) {
      refuse(queued[at++]);
      continue;
    }
    if (!posted.status.ok()) {
      queued.erase(queued.begin(), queued.begin() + static_cast<ptrdiff_t>(at));
      give_up(peer);
      return at;
    }
    if (posted.accepted < run.size()) break;
  }
  queued.erase(queued.begin(), queued.begin() + static_cast<ptrdiff_t>(at));
  return at;
}

// An operation that the channel takes in no form: a destination that is not registered, say.
void LaneEngine::refuse(const Operation& operation) {
  Attempt& attempt = attempts_[OperationTag::of(operation.tag).attempt];
  attempt.broken = true;
  attempt.failures = kMostFailures;
  operation_ended(OperationTag::of(operation.tag));
}

void LaneEngine::operation_ended(const OperationTag& tag) {
  Attempt& attempt = attempts_[tag.attempt];
  attempt.outstanding &= static_cast<uint8_t>(~tag.part);
  if (attempt.outstanding == 0) attempt_ended(attempt);
}

size_t LaneEngine::poll_completions(LanePeer& peer) {
  if (peer.path.has_ended()) return end_operations(peer);
  const size_t count = peer.path.poll(std::span(polled_).first(poll_batch_));
  if (count == 0) return 0;
  now_ns_ = clock_.now_ns();
  for (size_t i = 0; i < count; ++i) complete(peer, polled_[i]);
  if (!landed_.empty()) settle_landed();
  return count;
}

// The path's channels are gone, so that nothing of them can land any more.
size_t LaneEngine::end_operations(LanePeer& peer) {
  const size_t count = peer.path.in_flight();
  peer.path.forget_operations();
  for (Attempt& attempt : attempts_) {
    if (attempt.peer != &peer || attempt.outstanding == 0) continue;
    attempt.broken = true;
    attempt.outstanding = 0;
    attempt_ended(attempt);
  }
  return count;
}

void LaneEngine::complete(LanePeer& peer, const Completion& completion) {
  const OperationTag tag = OperationTag::of(completion.tag);
  FARPAGE_CHECK(tag.attempt < kWindow);
  Attempt& attempt = attempts_[tag.attempt];
  if (attempt.step != tag.step || (attempt.outstanding & tag.part) == 0) {
    counters_.strays.add();  // it has come before
    return;
  }
  peer.path.operation_ended();
  peer.heard_ns = now_ns_;
  if (completion.outcome != Outcome::kOk) attempt.broken = true;
  if (completion.outcome == Outcome::kFailed) {
    ++attempt.failures;
    peer.link->breaker().failed(now_ns_);
  }
  attempt.payload_crc = completion.crc;
  operation_ended(tag);
}

void LaneEngine::attempt_ended(Attempt& attempt) {
  if (attempt.held) {
    if (attempt.fetch != &orphaned_) {
      if (!on(Guard::kVerdictCas) && !attempt.broken) {
        attempt.fetch->verdicts[attempt.page].verdict = Verdict::kReady;
      }
      attempt.fetch->verdicts[attempt.page].place = Place::kReleased;
      --attempt.fetch->held;
    }
    return free_attempt(attempt);
  }
  const bool is_usable = usable(attempt);
  attempt.broken = false;
  if (!is_usable) return came_to_nothing(attempt);
  if (!single_ || attempt.fetch->options.recompute_ns > 0) {
    attempt.peer->latency.add(now_ns_ - attempt.posted_ns);
    attempt.peer->link->breaker().succeeded();
  }
  if (attempt.lookup.step() == PageLookup::Step::kReadPage) {
    const bool tells = attempt.bytes > 0 && !was_away_;
    if (tells) attempt.peer->window.ended(now_ns_ - attempt.posted_ns);
    return read_landed(attempt);
  }
  attempt.lookup.index_landed(landing().buckets[attempt.index], attempt.peer->path.view().geometry);
  queue_step(attempt);
}

void LaneEngine::read_landed(Attempt& attempt) {
  const PageHeader& header = landing().headers[attempt.index];
  if (attempt.lookup.header_landed(header) == PageFinding::kGood) {
    const Slice& landed = destination(attempt);
    // A version that nobody can have given out is a lie, though its CRCs are right.
    bool matches = alone_ || header.version <= newest_possible(attempt);
    if (verify_ && landed.bytes > 0 && on(Guard::kPayloadCrc)) {
      const uint32_t crc =
          lands_with_crc_ ? attempt.payload_crc : crc32c(0, landed.data, landed.bytes);
      matches &= crc == header.payload_crc;
    }
    attempt.lookup.payload_landed(header, matches);
  }
  if (attempt.lookup.step() == PageLookup::Step::kReady) {
    landed_.push_back(attempt.index);
  } else {
    queue_step(attempt);
  }
}

const std::byte* LaneEngine::mapped_payload(const PageKey& key) const {
  const LanePeer& peer = *by_member_[view_->placement.replicas(key).primary()];
  const auto* direct = dynamic_cast<const DirectMemory*>(peer.path.channel());
  Location location;
  if (direct == nullptr || !peer.link->locations().find(key, location)) return nullptr;
  const uint64_t offset = peer.path.view().geometry.slot_offset(location.slot) + sizeof(PageHeader);
  const std::span<const std::byte> pool = direct->view(peer.path.pool());
  return offset < pool.size() ? pool.data() + offset : nullptr;
}

}  // namespace farpage
