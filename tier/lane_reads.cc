#include "tier/lane_reads.h"

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
  if (page.is.hedge) places_.give_back(uint64_t{1} << details_[page.index].place);
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

// Queues the reads that the page's next step asks for, or hears what the replica has said.
void LaneEngine::read_next(PageInFlight& page) {
  const PageLookup& lookup = lookup_of(page);
  switch (lookup.step()) {
    case PageLookup::Step::kRecompute:
      return replica_said(page, lookup.reason());
    case PageLookup::Step::kReadIndex:
      return read_index(page);
    case PageLookup::Step::kReadPage:
      page.slot = static_cast<uint32_t>(lookup.slot());
      return read_page(page);
    case PageLookup::Step::kReady:
      FARPAGE_CHECK(false);
  }
}

void LaneEngine::read_index(PageInFlight& page) {
  LanePeer& peer = *page.peer;
  if (!peer.path.is_open()) return wait_again(page);
  counters_.index_looks.add();
  page.step = ++steps_;
  page.posted_ns = now_ns_;
  page.is.reads_page = page.is.whole = false;
  const auto homes = key_buckets(page.request->key, peer.path.view().geometry.buckets);
  for (size_t i = 0; i < homes.size(); ++i) {
    Operation& operation = queue_read(page, static_cast<uint8_t>(1u << i));
    operation.wants_crc = false;
    operation.remote = peer.path.index();
    operation.remote_offset = homes[i] * sizeof(Bucket);
    operation.local_count = 1;
    operation.local[0] = landing_slice(&landing().buckets[page.index][i], sizeof(Bucket));
  }
}

// Takes back what has been queued and not posted, of such pages.
template <typename Which>
void LaneEngine::cancel_queued(LanePeer& peer, const Which& which) {
  if (peer.queue.empty()) return;
  const auto page_of = [this](const Operation& operation) -> PageInFlight& {
    return pages_[OperationTag::of(operation.tag).attempt];
  };
  peer.queue.remove(
      [&](const Operation& operation) {
        PageInFlight& page = page_of(operation);
        if (!which(page)) return false;
        page.is.broken = true;
        page.outstanding &= static_cast<uint8_t>(~OperationTag::of(operation.tag).part);
        if (page.outstanding == 0) conclude_other(page);
        return true;
      },
      [&](const Operation& operation) { return page_of(operation).fetch->deadline_ns; });
}

void LaneEngine::cancel_queued(LanePeer& peer) {
  cancel_queued(peer, [](const PageInFlight&) { return true; });
}

void LaneEngine::cancel_queued(PageInFlight& page) {
  if (page.peer == nullptr) return;
  cancel_queued(*page.peer, [&](const PageInFlight& each) { return &each == &page; });
}

void LaneEngine::cancel_queued(LanePeer& peer, const FetchState& fetch) {
  cancel_queued(peer, [&](const PageInFlight& each) { return each.fetch == &fetch; });
}

}  // namespace farpage
