#include "base/check.h"
#include "tier/fetch/lane_reads.h"

// Between a page's landing and its verdict, where the backend counts no CRC as it lands: the
// payload is checked in the memory that it lies in. As long as that lasts the page is as one whose
// read has not ended: its place in the window, its destination and its hedge's place are in use.
namespace farpage {

void LaneEngine::begin_check(PageInFlight& page) {
  const Slice& landed = destination(page);
  const uint32_t crc = landing().headers[page.index].payload_crc;
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
  FARPAGE_CHECK(end.tag < kWindow);
  PageInFlight& page = pages_[end.tag];
  FARPAGE_CHECK(page.outstanding == PageInFlight::kCheck);
  page.outstanding = 0;
  page.is.whole = end.outcome == CheckEnd::Outcome::kGood;
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
  if (page.is.broken || page.is.former || !is_of_run) {
    page.is.broken = page.is.whole = false;
    return attempt_failed(page);
  }
  read_landed(page);
}

}  // namespace farpage
