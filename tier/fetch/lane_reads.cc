#include "tier/fetch/lane_reads.h"

#include "base/check.h"

namespace farpage {

void LaneEngine::leave(PageInFlight& page) {
  if (page.peer == nullptr) return;
  LanePeer& peer = *page.peer;
  --peer.attempts;
  peer.bytes -= page.bytes;
  if (page.is.held) {
    --peer.held;
    peer.held_bytes -= page.bytes;
  }
  if (page.is.detailed) history_of(page).under_way &= static_cast<Replicas>(~replica(page.rank));
  page.peer = nullptr;
}

void LaneEngine::free_page(PageInFlight& page) {
  leave(page);
  if (page.is.hedge) places_.give_back(details_[page.index].place);
  forget(page);
}

// Those of a page that has done without say what it has done.
PageDetails& LaneEngine::details_of(PageInFlight& page) {
  PageDetails& details = details_[page.index];
  if (!page.is.detailed) {
    page.is.detailed = true;
    details = {};
    if (page.peer != nullptr) {
      details.history.asked = details.history.under_way = replica(0);
      details.history.attempts = 1;
    }
  }
  return details;
}

// The lookup goes on from the location that was tried, if there is one.
PageLookup& LaneEngine::lookup_of(PageInFlight& page) {
  PageLookup& lookup = details_of(page).lookup;
  if (!page.is.looked_up) {
    page.is.looked_up = true;
    const View& view = page.peer->path.view();
    const Location location = {page.slot, page.version};
    lookup.begin(*page.request, page.version != 0 ? &location : nullptr, view.geometry,
                 view.incarnation);
  }
  return lookup;
}

// Landed bytes ask for another read, or are the replica's last word.
void LaneEngine::go_on(PageInFlight& page) {
  const PageLookup& lookup = lookup_of(page);
  if (lookup.step() == PageLookup::Step::kRecompute)
    return on_replica_verdict(page, lookup.reason());
  step_later(page);
}

void LaneEngine::step_later(PageInFlight& page) {
  if (page.is.goes_on) return;
  page.is.goes_on = true;
  going_on_.push_back(page.index);
}

void LaneEngine::begin_steps() {
  for (const uint16_t index : going_on_) {
    PageInFlight& page = pages_[index];
    if (!page.is.goes_on) continue;  // it has its verdict, or another page has its place
    page.is.goes_on = false;
    begin_step(page);
  }
  going_on_.clear();
}

void LaneEngine::begin_step(PageInFlight& page) {
  if (page.is.former || !may_begin(*page.peer)) return requeue(page);
  if (page.is.looked_up) return read_next(page);
  look_up(page);
}

// The reads that the page's next step asks for, or what the replica has said.
void LaneEngine::read_next(PageInFlight& page) {
  const PageLookup& lookup = lookup_of(page);
  switch (lookup.step()) {
    case PageLookup::Step::kRecompute:
      return on_replica_verdict(page, lookup.reason());
    case PageLookup::Step::kReadIndex:
      return read_index(page);
    case PageLookup::Step::kReadPage:
      // The lookup may have begun under another view.
      if (lookup.slot() >= page.peer->path.view().geometry.slots) return requeue(page);
      page.slot = static_cast<uint32_t>(lookup.slot());
      return read_page(page);
    case PageLookup::Step::kReady:
      FARPAGE_CHECK(false);
  }
}

// The header alone, and then the payload, if one is wanted: its node keeps it elsewhere, or it is
// copied from where it lies. The step has one time for both, from before the first of them is
// posted (protocol rule 3).
void LaneEngine::read_otherwise(PageInFlight& page) {
  const LanePeer& peer = *page.peer;
  page.is.straight = goes_straight(page);
  const bool is_apart = peer.path.view().geometry.is_apart();
  if (page.bytes > 0 && !page.is.straight && !is_apart) return read_together(page);
  Operation& header = begin_read(page, kHeaderPart);
  header.wants_crc = false;
  header.remote = peer.path.headers();
  header.remote_offset = page.slot * peer.header_stride;
  header.local_count = 1;
  header.local[0] = landing_slice(&landing().headers[page.index], sizeof(PageHeader));
  if (page.bytes == 0 || page.is.straight) return;
  page.is.apart = true;
  Operation& payload = begin_read(page, kPayloadPart);
  payload.wants_crc = wants_crc_;
  payload.remote = peer.path.pool();
  payload.remote_offset = peer.path.view().geometry.payload_offset(page.slot);
  payload.local_count = 1;
  payload.local[0] = destination(page);
}

void LaneEngine::read_index(PageInFlight& page) {
  const LanePeer& peer = *page.peer;
  counters_.index_looks.add();
  page.step = ++steps_;
  page.posted_ns = now_ns_;
  page.is.reads_page = page.is.apart = page.is.straight = page.is.whole = false;
  const auto homes = key_buckets(page.request->key, peer.path.view().geometry.buckets);
  for (size_t i = 0; i < homes.size(); ++i) {
    Operation& operation = begin_read(page, static_cast<uint8_t>(1u << i));
    operation.wants_crc = false;
    operation.remote = peer.path.index();
    operation.remote_offset = homes[i] * sizeof(Bucket);
    operation.local_count = 1;
    operation.local[0] = landing_slice(&landing().buckets[page.index][i], sizeof(Bucket));
  }
}

}  // namespace farpage
