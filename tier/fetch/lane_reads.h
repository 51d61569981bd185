#pragma once

#include <atomic>
#include <utility>

#include "base/check.h"
#include "tier/fetch/lane_engine.h"

// The parts of a lane's loop that every page goes through, which the compiler puts into the loop.
namespace farpage {

inline PageInFlight& LaneEngine::take_page(FetchState& fetch, uint32_t number) {
  PageInFlight& page = pages_[free_pages_[--free_count_]];
  page.fetch = &fetch;
  page.request = &fetch.requests[number];
  page.bytes = page.request->destination.bytes;
  bytes_under_way_ += page.bytes;
  return page;
}

inline void LaneEngine::begin_at(LanePeer& peer, PageInFlight& page) {
  page.peer = &peer;
  peer.link->use();
  ++peer.attempts;
  peer.bytes += page.bytes;
}

// An operation of the peer's has ended.
[[gnu::always_inline]] inline void LaneEngine::heard(LanePeer& peer) {
  peer.heard_ns = now_ns_;
  if (!std::exchange(peer.silent, false)) return;
  looks_at_put_off_ = true;
}

// Of a page that nothing is known of but what every page has.
[[gnu::always_inline]] inline void LaneEngine::free_plain(PageInFlight& page) {
  --page.peer->attempts;
  page.peer->bytes -= page.bytes;
  forget(page);
}

[[gnu::always_inline]] inline void LaneEngine::forget(PageInFlight& page) {
  bytes_under_way_ -= page.bytes;
  const uint16_t index = page.index;
  page = {};
  page.index = index;
  free_pages_[free_count_++] = index;
}

// A read of which the caller fills in the rest.
[[gnu::always_inline]] inline Operation& LaneEngine::next_read(LanePeer& peer) {
  if (!peer.busy) {
    peer.busy = true;
    busy_.push_back(&peer);
  }
  ++peer.written;
  if (peer.path.in_flight() == 0) peer.asked_ns = now_ns_;
  Operation& operation = peer.path.next();
  operation.kind = OperationKind::kRead;
  operation.has_immediate = operation.follows = false;
  return operation;
}

// One operation of the page's step, of which the caller fills in what it reads, and where to.
[[gnu::always_inline]] inline Operation& LaneEngine::begin_read(PageInFlight& page, uint8_t part) {
  page.outstanding |= part;
  Operation& operation = next_read(*page.peer);
  operation.alone = page.failures > 0;  // perhaps for another page's sake
  operation.tag = OperationTag{page.step, part, page.index}.value();
  operation.deadline_ns = page.fetch->deadline_ns;
  return operation;
}

[[gnu::always_inline]] inline void LaneEngine::read_page(PageInFlight& page) {
  const LanePeer& peer = *page.peer;
  PageHeader& header = landing().headers[page.index];
  // So that a read that lands nothing shows nothing (protocol rule 18).
  if (enforced(Guard::kZeroLanding)) header.live = 0;
  page.step = ++steps_;
  page.posted_ns = now_ns_;
  page.is.reads_page = true;
  page.is.apart = page.is.straight = page.is.whole = false;
  if (page.bytes <= peer.longest_alone) return read_otherwise(page);
  read_together(page);
}

[[gnu::always_inline]] inline void LaneEngine::read_together(PageInFlight& page) {
  const LanePeer& peer = *page.peer;
  PageHeader& header = landing().headers[page.index];
  Operation& operation = begin_read(page, kHeaderPart);
  operation.wants_crc = wants_crc_;
  operation.remote = peer.path.pool();
  operation.remote_offset = page.slot * peer.header_stride;
  operation.local_count = 2;
  operation.local[0] = landing_slice(&header, sizeof header);
  operation.local[1] = destination(page);
}

// Begins at the page's peer: where the page was last seen, or by its index.
[[gnu::always_inline]] inline void LaneEngine::look_up(PageInFlight& page) {
  const PageRequest& request = *page.request;
  const Geometry& geometry = page.peer->path.view().geometry;
  Location location;
  const bool is_located =
      page.peer->link->locations().find(request.key, location) && location.slot < geometry.slots &&
      location.version >= request.min_version && page.bytes <= geometry.page_bytes;
  page.version = is_located ? location.version : 0;
  if (!is_located) return read_next(page);
  page.slot = static_cast<uint32_t>(location.slot);
  counters_.located.add();
  read_page(page);
}

// All at one look at the clock.
[[gnu::always_inline]] inline void LaneEngine::count_them() {
  FetchState& fetch = *ready_.fetch;
  const uint32_t count = ready_.count;
  const uint64_t took_ns = now_ns_ - fetch.started_ns;
  counters_.count_ready(count, ready_.bytes, took_ns, fetch.pending == 0);
  counters_.count_lateness(count, now_ns_, fetch.deadline_ns);
  any_ended_ |= fetch.pending == 0;
  ready_ = {};
  if (fetch.is_counted) fetch.counter.arrive(Outcome::kOk, count);
}

// This thread alone gives verdicts; others may read them.
[[gnu::always_inline]] inline void LaneEngine::give_verdict(FetchState& fetch, uint32_t number,
                                                            Reason reason, Version version,
                                                            const Tries& tries) {
  PageVerdict& target = fetch.verdicts[number];
  FARPAGE_CHECK(target.verdict == Verdict::kPending);
  const bool is_ready = reason == Reason::kNone;
  // Before there is another verdict: the hearer may ask for this fetch's counter.
  if (ready_.fetch != &fetch || !is_ready) count_ready();
  const Slice& destination = fetch.requests[number].destination;
  target.reason = reason;
  target.looks = tries.looks;
  target.attempts = tries.attempts;
  target.replicas = tries.replicas;
  target.payload_crc = tries.payload_crc;
  target.version = version;
  target.took_ns = now_ns_ - fetch.started_ns;
  if (is_ready) target.landed = tries.landed != nullptr ? tries.landed : destination.data;
  std::atomic_ref<Verdict>(target.verdict)
      .store(is_ready ? Verdict::kReady : Verdict::kRecompute, std::memory_order_release);
  --fetch.pending;
  if (!is_ready) return count_recompute(fetch, target);
  ready_.fetch = &fetch;
  ++ready_.count;
  ready_.bytes += destination.bytes;
}

}  // namespace farpage
