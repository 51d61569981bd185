#include <atomic>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "integrity/crc32c.h"
#include "tier/fetch/lane_reads.h"
#include "transport/mapped_peer.h"

// Between a page's landing and its verdict, where the backend counts no CRC as it lands: the
// payload is checked in the memory that it lies in. As long as that lasts the page is as one whose
// read has not ended: its place in the window, its destination and its hedge's place are in use.
namespace farpage {

void LaneEngine::begin_check(PageInFlight& page) {
  const Slice& landed = destination(page);
  const uint32_t crc = landing().headers[page.index].payload_crc;
  checks_moved_ns_ = now_ns_;
  if (checks_.add(landed.place, {landed.data, landed.bytes, crc, page.index})) {
    page.outstanding = PageInFlight::kCheck;
    return;
  }
  page.is.broken = true;
  page.failures = kMostFailures;
}

// Those that have been begun in this turn end before it concludes, where the checker is as fast as
// that; otherwise in one of the next.
size_t LaneEngine::check() {
  return checks_.advance([this](const CheckEnd& end) { check_ended(end); });
}

void LaneEngine::check_ended(const CheckEnd& end) {
  FARPAGE_CHECK(end.tag < kPlaces);
  PageInFlight& page = pages_[end.tag];
  FARPAGE_CHECK(page.outstanding == PageInFlight::kCheck);
  page.outstanding = 0;
  checks_moved_ns_ = now_ns_;
  page.is.whole = end.outcome == CheckEnd::Outcome::kGood &&
                  (!page.is.straight || page.is.held || stands_as_read(page));
  if (end.outcome == CheckEnd::Outcome::kFailed) {
    page.is.broken = true;
    ++page.failures;
  }
  if (page.is.aside) checked_[checked_count_++] = page.index;
}

// Its read has ended, and its check has not. Whether the read was in time is decided now, and how
// long it took is counted now: the check's time is not the peer's.
void LaneEngine::set_aside(PageInFlight& page) {
  page.is.aside = true;
  if (page.is.held) return;
  if (usable(page)) {
    count_read(page);
  } else {
    page.is.broken = true;
  }
}

void LaneEngine::conclude_checked() {
  for (uint32_t i = 0; i < checked_count_; ++i) {
    PageInFlight& page = pages_[checked_[i]];
    if (page.fetch == nullptr) continue;  // its twin's end was its own
    page.is.aside = false;
    conclude_checked(page);
  }
  checked_count_ = 0;
}

// The clock after the check decides (protocol rule 19). The read had ended under a lease: that its
// path has ended since takes nothing from the page, unless another run of the node answers there by
// now. The end of its epoch does.
void LaneEngine::conclude_checked(PageInFlight& page) {
  if (page.is.held) return released(page);
  const bool is_of_run =
      page.peer->path.view().incarnation == landing().headers[page.index].incarnation;
  const bool is_in_time = !page.is.straight || in_time(page);  // it was read until now
  if (page.is.broken || page.is.former || !is_of_run || !is_in_time) {
    page.is.broken = page.is.whole = false;
    return attempt_failed(page);
  }
  read_landed(page);
}

// Pages that a copier takes to a device straight from where they lie in a node's memory. The header
// is read as that of any page. If it shows the page that is wanted, the copier checks the payload
// in place, and copies it. Once the copy has ended, the header must stand there as it did before,
// and less than the `read_window` must have passed since the step began, under the lease: the node
// may have given the slot away meanwhile (I1). A page whose copy was of no use lands at its
// destination the next time. As long as the copy lasts, the page is as one that is being checked
// (I4).

void LaneEngine::copy_straight(PageCopier& copier) {
  copier_ = &copier;
  for (const auto& peer : peers_) {
    if (peer->path.is_open()) open_source(*peer);
  }
}

// Of a path that is open now.
void LaneEngine::open_source(LanePeer& peer) {
  const auto* mapped =
      copier_ != nullptr ? dynamic_cast<const MappedPeer*>(peer.path.channel()) : nullptr;
  auto pool = mapped != nullptr ? mapped->mapping_of(peer.path.pool()) : nullptr;
  if (pool == nullptr) {
    peer.source.reset();
  } else if (peer.source == nullptr || peer.source->memory != pool) {
    peer.headers_at = mapped->mapping_of(peer.path.headers())->data();
    peer.source = copier_->open(std::move(pool));
  }
  const bool is_apart = peer.path.view().geometry.is_apart();
  peer.longest_alone = is_apart || peer.source != nullptr ? UINT64_MAX : 0;
}

bool LaneEngine::goes_straight(const PageInFlight& page) const {
  const LanePeer& peer = *page.peer;
  const bool is_first = !page.is.detailed || details_[page.index].source == nullptr;
  return page.request->straight_to != 0 && page.bytes > 0 && is_first && !page.is.hedge &&
         twin_of(page) == kNoTwin && peer.source != nullptr && peer.source->is_ready.load();
}

// Of a page whose header has landed, and is good.
void LaneEngine::begin_copy(PageInFlight& page) {
  const LanePeer& peer = *page.peer;
  if (!peer.path.is_open()) {  // it has ended since the header was read
    page.is.broken = true;
    return;
  }
  details_of(page).source = peer.source.get();
  const uint64_t offset = peer.path.view().geometry.payload_offset(page.slot);
  const uint32_t crc = landing().headers[page.index].payload_crc;
  checks_moved_ns_ = now_ns_;
  checks_.add(*copier_,
              {.payload = {peer.source->memory->data() + offset, page.bytes, crc, page.index},
               .to = page.request->straight_to,
               .verify = verify_ && enforced(Guard::kPayloadCrc),
               .deadline_ns = page.fetch->deadline_ns,
               .source = peer.source});
  page.outstanding = PageInFlight::kCheck;
}

// The header as it stands now lands as the read's, so that whoever judges the page sees it.
bool LaneEngine::stands_as_read(PageInFlight& page) {
  const LanePeer& peer = *page.peer;
  if (!peer.path.is_open() || peer.source.get() != details_[page.index].source) {
    page.is.broken = true;
    return false;
  }
  PageHeader& landed = landing().headers[page.index];
  const PageHeader before = landed;
  std::atomic_thread_fence(std::memory_order_acquire);  // the copy has ended before this look
  copy_unchecked(&landed, peer.headers_at + page.slot * peer.header_stride, sizeof landed,
                 Stores::kKept);
  return std::memcmp(&before, &landed, sizeof landed) == 0;
}

}  // namespace farpage
