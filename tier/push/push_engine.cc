#include "tier/push/push_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "integrity/crc32c.h"
#include "integrity/page_check.h"
#include "pagetable/guards.h"

namespace farpage {
namespace {

// While the node's answer is awaited, pages may arrive already; while they are, the view may
// change.
constexpr uint64_t kLookNs = kMillisecond;

// The node may write the place at any time: what is judged and what is used afterwards come from
// one copy, each word of which is loaded once.
PageHeader copy_header(const PageLease& place) {
  std::array<uint64_t, sizeof(PageHeader) / sizeof(uint64_t)> words;
  const auto* landed = reinterpret_cast<const uint64_t*>(place.slice().data);
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = std::atomic_ref<const uint64_t>(landed[i]).load(std::memory_order_relaxed);
  }
  return std::bit_cast<PageHeader>(words);
}

Reason reason_of(PageFinding finding) {
  switch (finding) {
    case PageFinding::kGood:
      return Reason::kNone;
    case PageFinding::kCorrupt:
      return Reason::kCorrupt;
    case PageFinding::kOtherLength:
      return Reason::kMiss;
    case PageFinding::kOtherPage:
    case PageFinding::kNotLive:
    case PageFinding::kOtherVersion:
      return Reason::kStale;
  }
  return Reason::kCorrupt;
}

}  // namespace

Result<std::unique_ptr<PushEngine>> PushEngine::create(const std::shared_ptr<NodeSession>& link,
                                                       const PushOptions& options) {
  if (options.pages == 0 || options.pages > kMaxPushPages || options.group_pages == 0 ||
      push_groups(options.pages, options.group_pages) > kMaxPushGroups) {
    return fail(Code::kInvalid,
                fmt::format("a push lane of {} pages in groups of {}: choose 1 to "
                            "{} pages, in at most {} groups",
                            options.pages, options.group_pages, kMaxPushPages, kMaxPushGroups));
  }
  std::unique_ptr<PushEngine> engine(new PushEngine(link, options));
  if (auto opened = engine->open_path(); !opened) return tl::unexpected(opened.error());
  return engine;
}

PushEngine::PushEngine(std::shared_ptr<NodeSession> link, const PushOptions& options)
    : link_(std::move(link)),
      clock_(link_->runtime().clock()),
      options_(options),
      verify_(link_->options().verify),
      path_(link_, options.pages) {
  link_->counters()->open(&counters_);
}

PushEngine::~PushEngine() {
  link_->counters()->close(&counters_);
}

Result<void> PushEngine::open_path() {
  now_ns_ = clock_.now_ns();
  const uint64_t deadline = now_ns_ + link_->options().connect_ms * kMillisecond;
  link_->start();
  while (!path_.advance(now_ns_)) {
    const bool late = now_ns_ >= deadline;
    if (path_.error() && (late || !path_.lost_link())) return tl::unexpected(*path_.error());
    if (late) {
      return fail(Code::kTimeout, "the memory node has opened no push lane in client.connect_ms");
    }
    path_.wait(deadline);
    now_ns_ = clock_.now_ns();
  }
  return {};
}

PushState* PushEngine::start(std::span<const PushedPage> requests, std::span<PageVerdict> verdicts,
                             uint64_t deadline_ns) {
  FARPAGE_CHECK(requests.size() == verdicts.size() && requests.size() <= options_.pages);
  link_->start();
  auto unused = std::ranges::find_if(pushes_, [](const auto& push) { return !push->in_use; });
  if (unused == pushes_.end()) {
    pushes_.push_back(std::make_unique<PushState>());
    unused = pushes_.end() - 1;
    (*unused)->places.resize(options_.pages);
    (*unused)->payload_bytes.resize(options_.pages);
    (*unused)->order.reserve(options_.pages);
  }
  PushState& push = **unused;
  push.requests = requests;
  push.verdicts = verdicts;
  push.deadline_ns = deadline_ns;
  push.pending = requests.size();
  push.in_use = true;
  push.sent = false;
  push.counter.reset(static_cast<uint32_t>(requests.size()));
  std::ranges::fill(verdicts, PageVerdict{});
  push.started_ns = clock_.now_ns();
  if (requests.empty()) return &push;
  active_.push_back(&push);
  turn();
  return &push;
}

void PushEngine::recycle(PushState* push) {
  if (push->pending > 0) {
    now_ns_ = clock_.now_ns();
    drop(*push, Reason::kStalled);
    std::erase(active_, push);
  }
  for (auto& place : push->places) place.reset();
  push->in_use = false;
}

void PushEngine::progress() {
  turn();
}

// Take what has arrived, give the verdicts, ask for what waits.
bool PushEngine::turn() {
  now_ns_ = clock_.now_ns();
  if (!active_.empty()) link_->use();
  if (path_.outdated()) end_landing();
  bool any = false;
  if (path_.advance(now_ns_)) {
    any = path_.landing().poll();
    now_ns_ = clock_.now_ns();
  }
  // First: what arrived too late, or under a lease that has ended, is as if it had not come (rules
  // 3 and 12).
  sweep();
  for (PushState* push : active_) {
    if (push->sent) take_arrived(*push);
  }
  for (PushState* push : active_) {
    if (push->sent) take_answer(*push);
  }
  std::erase_if(active_, [](const PushState* push) { return push->pending == 0; });
  return send_waiting() || any;
}

bool PushEngine::send_waiting() {
  bool any = false;
  for (PushState* push : active_) {
    if (push->sent || !path_.is_open() || now_ns_ >= push->deadline_ns) continue;
    if (!send(*push)) return any;
    any = true;
  }
  return any;
}

// False: there are too few free places, or no free immediates, to ask with.
bool PushEngine::send(PushState& push) {
  push.order.clear();
  for (uint32_t page = 0; page < push.requests.size(); ++page) {
    if (push.verdicts[page].verdict == Verdict::kPending) push.order.push_back(page);
  }
  const auto groups = static_cast<uint32_t>(push_groups(push.order.size(), options_.group_pages));
  if (!take_places(push, groups)) {
    if (path_.landing().quarantined_pages() > 0) end_landing();
    return false;
  }
  PushRequest request;
  request.lane = path_.lane();
  request.immediate = push.immediate;
  request.group_pages = options_.group_pages;
  request.pages.reserve(push.order.size());
  for (const uint32_t page : push.order) {
    request.pages.push_back({push.requests[page].key, push.places[page]->index()});
  }
  push.sent = true;
  push.arrived = 0;
  push.answered = false;
  push.answer = std::make_shared<PushState::Answer>();
  push.asked_ns = now_ns_ = clock_.now_ns();
  const uint64_t ends_ns = std::min(push.deadline_ns, push.asked_ns + path_.view().reuse_ns);
  request.patience_ns = ends_ns - std::min(ends_ns, push.asked_ns);
  counters_.push_requests.add();
  path_.view().link->call(
      std::move(request), [answer = push.answer, &runtime = link_->runtime()](Result<Reply> reply) {
        if (reply) {
          if (auto* codes = std::get_if<PushReply>(&*reply)) {
            answer->codes = std::move(codes->codes);
          } else {
            const auto* refusal = std::get_if<Refusal>(&*reply);
            answer->refused = refusal != nullptr ? refusal->code : Code::kProtocol;
          }
        }
        answer->here.store(true, std::memory_order_release);
        runtime.notify();
      });
  return true;
}

bool PushEngine::take_places(PushState& push, uint32_t groups) {
  PagePool& pool = path_.landing().pool();
  path_.landing().collect();
  if (pool.free_pages() < push.order.size()) return false;
  const std::optional<uint32_t> immediate = path_.landing().begin(groups);
  if (!immediate) return false;
  push.immediate = *immediate;
  for (const uint32_t page : push.order) {
    push.places[page] = pool.take();
    // So that a page that does not come shows nothing (protocol rule 18).
    reinterpret_cast<PageHeader*>(push.places[page]->slice().data)->live = 0;
  }
  return true;
}

void PushEngine::take_arrived(PushState& push) {
  const size_t groups = push_groups(push.order.size(), options_.group_pages);
  const size_t first = size_t{push.arrived} * options_.group_pages;
  while (push.arrived < groups && path_.landing().arrived(push.immediate, push.arrived)) {
    ++push.arrived;
  }
  const size_t end =
      std::min<size_t>(size_t{push.arrived} * options_.group_pages, push.order.size());
  for (size_t at = first; at < end; ++at) {
    if (push.verdicts[push.order[at]].verdict == Verdict::kPending) land(push, at);
  }
}

// Judges a page whose group is there.
void PushEngine::land(PushState& push, size_t at) {
  const uint32_t page = push.order[at];
  const PushedPage& request = push.requests[page];
  const PageHeader header = copy_header(*push.places[page]);
  PageExpectation expected;
  expected.key = request.key;
  expected.min_version = request.min_version;
  expected.incarnation = path_.view().incarnation;
  expected.payload_bytes = request.payload_bytes;
  PageFinding finding = check_header(header, expected);
  if (finding == PageFinding::kGood) {
    const std::byte* payload = push.places[page]->slice().data + sizeof header;
    if (header.payload_bytes > path_.view().geometry.page_bytes ||
        (verify_ && crc32c(0, payload, header.payload_bytes) != header.payload_crc)) {
      finding = PageFinding::kCorrupt;
    }
  }
  // Nothing there: the node's answer says whether there was a page at all.
  if (finding == PageFinding::kNotLive && !push.answered) return;
  now_ns_ = clock_.now_ns();
  Reason reason = reason_of(finding);
  // The clock after the check decides (rule 19).
  if (now_ns_ >= push.deadline_ns) reason = Reason::kStalled;
  settle(push, page, reason, header);
  if (reason != Reason::kNone) give_back(push, at);
}

void PushEngine::take_answer(PushState& push) {
  if (push.answered || !push.answer->here.load(std::memory_order_acquire)) return;
  push.answered = true;
  if (push.answer->refused) {
    const Code code = *push.answer->refused;
    // Nothing was written, and no immediate comes: only with another landing is the id free.
    end_landing();
    if (code != Code::kNotFound) drop(push, Reason::kUnreachable);
    return;
  }
  const std::vector<Code>& codes = push.answer->codes;
  const size_t landed = size_t{push.arrived} * options_.group_pages;
  for (size_t at = 0; at < push.order.size(); ++at) {
    const uint32_t page = push.order[at];
    if (push.verdicts[page].verdict != Verdict::kPending) continue;
    if (at < codes.size() && codes[at] == Code::kNotFound) {
      settle(push, page, Reason::kMiss);
      give_back(push, at);
    } else if (at < landed) {
      land(push, at);
    }
  }
}

void PushEngine::sweep() {
  const bool valid = path_.view_valid(now_ns_) || link_->is_coming() || path_.view_valid(now_ns_);
  for (PushState* push : active_) {
    const bool late = now_ns_ >= push->deadline_ns ||
                      (push->sent && now_ns_ - push->asked_ns >= path_.view().reuse_ns);
    if (late) {
      drop(*push, Reason::kStalled);
    } else if (!valid) {
      drop(*push, Reason::kUnreachable);
    }
  }
}

// A verdict for every page that has none.
void PushEngine::drop(PushState& push, Reason reason) {
  if (push.sent) {
    for (size_t at = 0; at < push.order.size() && push.pending > 0; ++at) {
      const uint32_t page = push.order[at];
      if (push.verdicts[page].verdict != Verdict::kPending) continue;
      settle(push, page, reason);
      give_back(push, at);
    }
  }
  for (uint32_t page = 0; page < push.requests.size() && push.pending > 0; ++page) {
    if (push.verdicts[page].verdict == Verdict::kPending) settle(push, page, reason);
  }
}

void PushEngine::settle(PushState& push, uint32_t page, Reason reason, const PageHeader& judged) {
  PageVerdict& target = push.verdicts[page];
  const bool ready = reason == Reason::kNone;
  target.reason = reason;
  target.version = ready ? judged.version : 0;
  push.payload_bytes[page] = ready ? judged.payload_bytes : 0;
  target.looks = push.sent ? 1 : 0;
  target.verdict = ready ? Verdict::kReady : Verdict::kRecompute;
  --push.pending;
  const uint64_t took_ns = now_ns_ - push.started_ns;
  if (ready) {
    counters_.count_ready(1, push.payload_bytes[page], took_ns, push.pending == 0);
  } else {
    counters_.count_recompute(reason, took_ns, push.pending == 0);
  }
  counters_.count_lateness(1, now_ns_, push.deadline_ns);
  push.counter.arrive(ready ? Outcome::kOk : Outcome::kFailed);
}

// The place of a page that did not come: it is free once the node has done with its group (I4).
void PushEngine::give_back(PushState& push, size_t at) {
  std::optional<PageLease>& place = push.places[push.order[at]];
  const auto group = static_cast<uint32_t>(at / options_.group_pages);
  PushLanding& landing = path_.landing();
  if (enforced(Guard::kPushEndedByInvalidation) && !landing.arrived(push.immediate, group)) {
    counters_.quarantined_places.add();
    landing.quarantine(std::move(*place), push.immediate, group);
  }
  place.reset();
}

// Everything on its way there is asked for again, for another one (rule 4).
void PushEngine::end_landing() {
  if (!path_.is_open()) return;
  for (PushState* push : active_) {
    if (!push->sent) continue;
    push->sent = false;
    for (const uint32_t page : push->order) {
      if (push->verdicts[page].verdict == Verdict::kPending) push->places[page].reset();
    }
  }
  path_.end();
  counters_.channels_ended.add();
}

uint64_t PushEngine::next_event_ns() const {
  uint64_t next = kNever;
  for (const PushState* push : active_) {
    next = std::min(next, push->deadline_ns);
    if (push->sent) next = std::min(next, push->asked_ns + path_.view().reuse_ns);
  }
  return next;
}

void PushEngine::wait(uint64_t until_ns) {
  const uint64_t next = std::min(until_ns, next_event_ns());
  if (!path_.is_open()) return path_.wait(next);
  const uint64_t look = std::min(next, now_ns_ + kLookNs);
  bool any_sent = false;
  for (const PushState* push : active_) {
    if (!push->sent) continue;
    any_sent = true;
    if (push->answered) continue;
    link_->runtime().wait_until(
        look, [push] { return push->answer->here.load(std::memory_order_acquire); });
    return;
  }
  if (any_sent) return path_.landing().wait(look);
  link_->runtime().wait_until(look, [] { return false; });
}

void PushEngine::wait_done(PushState* push) {
  while (push->pending > 0) {
    if (!turn() && push->pending > 0) wait(kNever);
  }
}

PushStats PushEngine::stats() const {
  const PushLanding* landing = path_.landing_or_null();
  return {.pages_ready = counters_.ready.value(),
          .pages_recompute = counters_.recompute_total(),
          .requests = counters_.push_requests.value(),
          .free_places = landing == nullptr ? 0 : landing->pool().free_pages(),
          .quarantined_places = landing == nullptr ? 0 : landing->quarantined_pages(),
          .landings_ended = counters_.channels_ended.value()};
}

}  // namespace farpage
