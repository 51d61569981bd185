#include "tier/lane_engine.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "integrity/crc32c.h"

namespace farpage {
namespace {

// As many bytes as one poll may land before verdicts are given: more would make the first of them
// late.
constexpr uint64_t kPollBytes = 256 * kKiB;
// As many as are under way at one time: a backend that copies must get through them well within L.
constexpr uint64_t kWindowBytes = 32 * kMiB;
constexpr uint32_t kPrefetchAhead = 8;
// An operation that is refused this often would be refused for ever.
constexpr uint8_t kMostFailures = 3;

}  // namespace

Result<std::unique_ptr<LaneEngine>> LaneEngine::create(const std::shared_ptr<NodeLink>& link) {
  auto memory = Mapping::anonymous(sizeof(Landing));
  if (!memory) return tl::unexpected(memory.error());
  auto region = link->fabric().register_local({memory->data(), memory->bytes()});
  if (!region) return tl::unexpected(region.error());
  std::unique_ptr<LaneEngine> engine(new LaneEngine(link, std::move(*memory), std::move(*region)));
  if (auto opened = engine->open_path(); !opened) return tl::unexpected(opened.error());
  return engine;
}

LaneEngine::LaneEngine(std::shared_ptr<NodeLink> link, Mapping memory, Region region)
    : link_(std::move(link)),
      clock_(link_->runtime().clock()),
      verify_(link_->options().verify),
      lands_with_crc_(link_->fabric().capabilities().checksums_landing),
      memory_(std::move(memory)),
      region_(std::move(region)),
      path_(link_) {
  for (uint32_t index = kWindow; index-- > 0;) free_attempts_.push_back(index);
  queue_.reserve(2 * kWindow);
  landed_.reserve(kPollBatch);
  active_.reserve(kWindow);
  link_->counters()->open(&counters_);
}

LaneEngine::~LaneEngine() {
  link_->counters()->close(&counters_);
  path_.end();
  while (path_.in_flight() > 0) {
    if (poll_completions() == 0) path_.wait(kNever);
  }
}

Slice LaneEngine::landing_slice(const void* part, uint64_t bytes) const {
  const auto offset = static_cast<uint64_t>(static_cast<const std::byte*>(part) - memory_.data());
  return region_.slice(offset, bytes);
}

FetchState* LaneEngine::start(std::span<const PageRequest> requests,
                              std::span<PageVerdict> verdicts, uint64_t deadline_ns) {
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
  fetch.next = 0;
  fetch.pending = requests.size();
  fetch.held = 0;
  fetch.in_use = true;
  fetch.counter.reset(static_cast<uint32_t>(requests.size()));
  std::fill(verdicts.begin(), verdicts.end(), PageVerdict{});
  fetch.started_ns = now_ns_ = clock_.now_ns();
  if (!requests.empty()) active_.push_back(&fetch);
  if (!active_.empty()) turn();
  return &fetch;
}

void LaneEngine::recycle(FetchState* fetch) {
  fetch->deadline_ns = 0;
  wait_released(fetch, kNever);
  fetch->in_use = false;
}

Result<void> LaneEngine::open_path() {
  now_ns_ = clock_.now_ns();
  const uint64_t deadline = now_ns_ + link_->options().connect_ms * kMillisecond;
  while (!path_.advance(now_ns_)) {
    const bool late = now_ns_ >= deadline;
    if (path_.error() && (late || !path_.lost_link())) return tl::unexpected(*path_.error());
    if (late) {
      return fail(Code::kTimeout, "the memory node has opened no lane in client.connect_ms");
    }
    path_.wait(deadline);
    now_ns_ = clock_.now_ns();
  }
  return {};
}

bool LaneEngine::progress() {
  if (active_.empty()) return false;
  now_ns_ = clock_.now_ns();
  return turn();
}

// Begin what the window has room for, post it, take what has ended, give the verdicts.
bool LaneEngine::turn() {
  size_t posted = 0;
  if (path_.outdated()) {  // what is queued was made for it
    cancel_queued(nullptr);
    path_.end();
  }
  if (path_.advance(now_ns_)) {
    window_ = std::clamp<size_t>(kWindowBytes / path_.view().geometry.page_bytes, 2, kWindow);
    poll_batch_ = std::clamp<size_t>(kPollBytes / path_.view().geometry.page_bytes, 1, kPollBatch);
    begin_pages();
    posted = post_queued();
  }
  const size_t polled = poll_completions();
  sweep();
  return posted + polled > 0 || !queue_.empty();
}

void LaneEngine::begin_pages() {
  for (FetchState* fetch : active_) {
    if (now_ns_ >= fetch->deadline_ns) continue;
    LocationCache& locations = link_->locations();
    while (fetch->next < fetch->requests.size() && kWindow - free_attempts_.size() < window_) {
      const size_t ahead = fetch->next + kPrefetchAhead;
      if (ahead < fetch->requests.size()) locations.prefetch(fetch->requests[ahead].key);
      begin(*fetch, static_cast<uint32_t>(fetch->next++));
    }
  }
}

void LaneEngine::begin(FetchState& fetch, uint32_t page) {
  const uint32_t index = free_attempts_.back();
  free_attempts_.pop_back();
  Attempt& attempt = attempts_[index];
  attempt.fetch = &fetch;
  attempt.page = page;
  attempt.failures = 0;
  look_up(index);
}

void LaneEngine::look_up(uint32_t index) {
  Attempt& attempt = attempts_[index];
  const PageRequest& request = attempt.fetch->requests[attempt.page];
  Location location;
  const bool located = link_->locations().find(request.key, location);
  attempt.lookup.begin(request, located ? &location : nullptr, path_.view().geometry,
                       path_.view().incarnation);
  if (attempt.lookup.step() == PageLookup::Step::kReadPage) counters_.located.add();
  queue_step(index);
}

// Queues the reads that the page's next step asks for, or gives its verdict.
void LaneEngine::queue_step(uint32_t index) {
  Attempt& attempt = attempts_[index];
  const Geometry& geometry = path_.view().geometry;
  const PageRequest& request = attempt.fetch->requests[attempt.page];
  Operation operation;
  ++attempt.step;
  attempt.posted_ns = now_ns_;
  operation.alone = attempt.failures > 0;  // perhaps for another page's sake
  const auto queue = [&](uint8_t part) {
    operation.tag = OperationTag{attempt.step, part, static_cast<uint16_t>(index)}.value();
    attempt.outstanding |= part;
    queue_.push_back(operation);
  };
  const bool reads = attempt.lookup.step() == PageLookup::Step::kReadIndex ||
                     attempt.lookup.step() == PageLookup::Step::kReadPage;
  if (reads && !path_.is_open()) {
    attempt.waiting = true;
    ++waiting_;
    return;
  }
  switch (attempt.lookup.step()) {
    case PageLookup::Step::kReadIndex: {
      counters_.index_looks.add();
      operation.remote = path_.index();
      operation.local_count = 1;
      const auto homes = key_buckets(request.key, geometry.buckets);
      for (size_t i = 0; i < homes.size(); ++i) {
        operation.remote_offset = homes[i] * sizeof(Bucket);
        operation.local[0] = landing_slice(&landing().buckets[index][i], sizeof(Bucket));
        queue(static_cast<uint8_t>(1u << i));
      }
      break;
    }
    case PageLookup::Step::kReadPage: {
      PageHeader& header = landing().headers[index];
      header.live = 0;  // so that a read that lands nothing shows nothing (protocol rule 18)
      operation.remote = path_.pool();
      operation.remote_offset = geometry.slot_offset(attempt.lookup.slot());
      operation.local[0] = landing_slice(&header, sizeof header);
      operation.local[1] = request.destination;
      operation.local_count = request.destination.bytes > 0 ? 2 : 1;
      operation.wants_crc = verify_ && lands_with_crc_ && request.destination.bytes > 0;
      queue(1);
      break;
    }
    case PageLookup::Step::kReady:
      FARPAGE_CHECK(false);
      break;
    case PageLookup::Step::kRecompute:
      if (attempt.lookup.reason() == Reason::kMiss) link_->locations().erase(request.key);
      settle(attempt, Verdict::kRecompute, attempt.lookup.reason());
      free_attempt(index);
      break;
  }
}

size_t LaneEngine::post_queued() {
  if (queue_.empty() || !path_.is_open()) return 0;
  const auto deadline_of = [this](const Operation& operation) {
    return attempts_[OperationTag::of(operation.tag).attempt].fetch->deadline_ns;
  };
  // Runs of one fetch, because a backend that copies stops at the deadline that a post names.
  size_t at = 0;
  while (at < queue_.size()) {
    const uint64_t deadline = deadline_of(queue_[at]);
    size_t end = at + 1;
    while (end < queue_.size() && deadline_of(queue_[end]) == deadline) ++end;
    const auto run = std::span<const Operation>(queue_).subspan(at, end - at);
    for (const Operation& operation : run) {
      attempts_[OperationTag::of(operation.tag).attempt].posted_ns = now_ns_;
    }
    const PostResult posted = path_.post(run, deadline);
    counters_.posts.add();
    counters_.operations.add(posted.accepted);
    at += posted.accepted;
    if (posted.status.code == Code::kInvalid || posted.status.code == Code::kDenied) {
      refuse(queue_[at++]);
      continue;
    }
    if (!posted.status.ok()) {
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(at));
      end_path();
      return at;
    }
    if (posted.accepted < run.size()) break;
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(at));
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
  if (attempt.outstanding == 0) attempt_ended(tag.attempt);
}

size_t LaneEngine::poll_completions() {
  const size_t count = path_.poll(std::span(polled_).first(poll_batch_));
  if (count == 0) return 0;
  now_ns_ = clock_.now_ns();
  for (size_t i = 0; i < count; ++i) complete(polled_[i]);
  if (!landed_.empty()) settle_landed();
  return count;
}

void LaneEngine::complete(const Completion& completion) {
  if (completion.kind != CompletionKind::kOperation) return;
  const OperationTag tag = OperationTag::of(completion.tag);
  FARPAGE_CHECK(tag.attempt < kWindow);
  Attempt& attempt = attempts_[tag.attempt];
  if (attempt.step != tag.step || (attempt.outstanding & tag.part) == 0) {
    counters_.strays.add();  // it has come before
    return;
  }
  path_.operation_ended();
  if (completion.outcome != Outcome::kOk) attempt.broken = true;
  if (completion.outcome == Outcome::kFailed) ++attempt.failures;
  attempt.payload_crc = completion.crc;
  operation_ended(tag);
}

void LaneEngine::attempt_ended(uint32_t index) {
  Attempt& attempt = attempts_[index];
  if (attempt.held) {
    if (attempt.fetch != &orphaned_) {
      attempt.fetch->verdicts[attempt.page].place = Place::kReleased;
      --attempt.fetch->held;
    }
    return free_attempt(index);
  }
  // What completed too late, or under a lease that has ended, is as if it had not come (rules 3 and
  // 12).
  const bool usable = !attempt.broken && now_ns_ - attempt.posted_ns < path_.view().reuse_ns &&
                      path_.view().valid(now_ns_);
  attempt.broken = false;
  if (!usable && attempt.failures >= kMostFailures) {
    settle(attempt, Verdict::kRecompute, Reason::kUnreachable);
    return free_attempt(index);
  }
  if (!usable) {
    attempt.waiting = true;
    ++waiting_;
    return;
  }
  if (attempt.lookup.step() == PageLookup::Step::kReadPage) return read_landed(index);
  attempt.lookup.index_landed(landing().buckets[index], path_.view().geometry);
  queue_step(index);
}

void LaneEngine::read_landed(uint32_t index) {
  Attempt& attempt = attempts_[index];
  const PageHeader& header = landing().headers[index];
  const Slice& destination = attempt.fetch->requests[attempt.page].destination;
  if (attempt.lookup.header_landed(header) == PageFinding::kGood) {
    bool matches = true;
    if (verify_ && destination.bytes > 0) {
      const uint32_t crc =
          lands_with_crc_ ? attempt.payload_crc : crc32c(0, destination.data, destination.bytes);
      matches = crc == header.payload_crc;
    }
    attempt.lookup.payload_landed(header, matches);
  }
  if (attempt.lookup.step() == PageLookup::Step::kReady) {
    landed_.push_back(index);
  } else {
    queue_step(index);
  }
}

// The clock after the check decides whether a page is ready (protocol rule 19).
void LaneEngine::settle_landed() {
  now_ns_ = clock_.now_ns();
  for (const uint32_t index : landed_) {
    Attempt& attempt = attempts_[index];
    const PageLookup& lookup = attempt.lookup;
    if (now_ns_ < attempt.fetch->deadline_ns) {
      if (lookup.used_index()) {
        const PageKey& key = attempt.fetch->requests[attempt.page].key;
        link_->locations().insert(key, {lookup.slot(), lookup.version()});
      }
      path_.touched(lookup.slot());
      settle(attempt, Verdict::kReady, Reason::kNone);
    } else {
      settle(attempt, Verdict::kRecompute, Reason::kStalled);
    }
    free_attempt(index);
  }
  landed_.clear();
}

void LaneEngine::settle(Attempt& attempt, Verdict verdict, Reason reason) {
  settle_page(*attempt.fetch, attempt.page, verdict, reason, attempt.lookup.version(),
              attempt.lookup.reads());
}

void LaneEngine::settle_page(FetchState& fetch, uint32_t page, Verdict verdict, Reason reason,
                             Version version, uint8_t looks) {
  PageVerdict& target = fetch.verdicts[page];
  const bool ready = verdict == Verdict::kReady;
  target.reason = reason;
  target.version = ready ? version : 0;
  target.looks = looks;
  Verdict pending = Verdict::kPending;
  FARPAGE_CHECK(std::atomic_ref<Verdict>(target.verdict)
                    .compare_exchange_strong(pending, verdict, std::memory_order_acq_rel));
  --fetch.pending;
  count_verdict(fetch, page, reason);
  fetch.counter.arrive(ready ? Outcome::kOk : Outcome::kFailed);
}

void LaneEngine::count_verdict(const FetchState& fetch, uint32_t page, Reason reason) {
  const uint64_t took_ns = now_ns_ - fetch.started_ns;
  counters_.count_page(reason, fetch.requests[page].destination.bytes, took_ns);
  if (fetch.pending == 0) counters_.fetches.add(took_ns);
  counters_.count_lateness(now_ns_, fetch.deadline_ns);
}

void LaneEngine::free_attempt(uint32_t index) {
  Attempt& attempt = attempts_[index];
  attempt.fetch = nullptr;
  attempt.held = false;
  free_attempts_.push_back(index);
}

const std::byte* LaneEngine::mapped_payload(const PageKey& key) const {
  const auto* direct = dynamic_cast<const DirectMemory*>(path_.channel());
  Location location;
  if (direct == nullptr || !link_->locations().find(key, location)) return nullptr;
  const uint64_t offset = path_.view().geometry.slot_offset(location.slot) + sizeof(PageHeader);
  const std::span<const std::byte> pool = direct->view(path_.pool());
  return offset < pool.size() ? pool.data() + offset : nullptr;
}

}  // namespace farpage
