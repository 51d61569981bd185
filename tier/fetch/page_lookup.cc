#include "tier/fetch/page_lookup.h"

#include "pagetable/guards.h"

namespace farpage {
namespace {

// A page that changes every time that it is looked at is stale rather than looked at for ever.
constexpr uint8_t kMaxLooks = 16;

}  // namespace

void PageLookup::begin(const PageRequest& request, const Location* location,
                       const Geometry& geometry, uint64_t incarnation) {
  *this = PageLookup();
  expected_.key = request.key;
  expected_.min_version = request.min_version;
  expected_.incarnation = incarnation;
  expected_.payload_bytes = request.destination.bytes;
  if (request.destination.bytes > geometry.page_bytes) return give_up(Reason::kMiss);
  if (location == nullptr || location->slot >= geometry.slots ||
      location->version < request.min_version) {
    return;
  }
  from_cache_ = true;
  read(location->slot, location->version);
}

void PageLookup::read(uint64_t slot, Version version) {
  slot_ = slot;
  expected_.version = version;
  step_ = Step::kReadPage;
}

void PageLookup::give_up(Reason reason) {
  reason_ = reason;
  step_ = Step::kRecompute;
}

void PageLookup::index_landed(std::span<const Bucket, 2> buckets, const Geometry& geometry) {
  ++looks_;
  candidates_ = find_candidates(buckets, expected_.key, geometry.slots);
  at_ = 0;
  last_suspect_ = suspect_;
  suspect_ = 0;
  next_candidate();
}

void PageLookup::next_candidate() {
  if (at_ < candidates_.count) return read(entry_slot(candidates_.entries[at_++]), 0);
  if (suspect_ == 0) {  // nothing of this key, twice in a row
    if (looks_ > 1 && last_suspect_ == 0) return give_up(Reason::kMiss);
  } else if (suspect_ == last_suspect_) {
    return give_up(suspect_finding_ == PageFinding::kOtherVersion ? Reason::kStale
                                                                  : Reason::kCorrupt);
  } else if (looks_ >= kMaxLooks) {
    return give_up(Reason::kStale);
  }
  step_ = Step::kReadIndex;
}

PageFinding PageLookup::judge(const PageHeader& header) const {
  if (enforced(Guard::kExactHeader)) return check_header(header, expected_);
  PageExpectation any = expected_;
  any.key = header.key;
  any.version = 0;
  return check_header(header, any);
}

PageFinding PageLookup::header_landed(const PageHeader& header) {
  ++reads_;
  const PageFinding finding = judge(header);
  if (finding != PageFinding::kGood) bad(finding);
  return finding;
}

void PageLookup::payload_landed(const PageHeader& header, bool is_good) {
  if (!is_good) return bad(PageFinding::kCorrupt);
  version_ = header.version;
  step_ = Step::kReady;
}

void PageLookup::bad(PageFinding finding) {
  if (from_cache_) {
    from_cache_ = false;
    step_ = Step::kReadIndex;
    return;
  }
  if (finding == PageFinding::kOtherLength) return give_up(Reason::kMiss);
  if (finding != PageFinding::kOtherPage) {
    suspect_ = candidates_.entries[at_ - 1];
    suspect_finding_ = finding;
  }
  next_candidate();
}

}  // namespace farpage
