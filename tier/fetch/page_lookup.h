#pragma once

#include <cstdint>
#include <span>

#include "integrity/page_check.h"
#include "pagetable/geometry.h"
#include "pagetable/index_layout.h"
#include "pagetable/location_cache.h"
#include "tier/request/page_request.h"

namespace farpage {

// One page's way from its key to a verdict, without any input or output of its own: the caller
// reads what step() asks for, tells what came, and goes on until the step is an end.
//
//   cached location ──► kReadPage ──good──► kReady
//                          │ bad                      ┌── empty twice ──► kRecompute(miss)
//                          ▼                          │
//                      kReadIndex ──candidate──► kReadPage ──good──► kReady
//                          ▲                          │ bad
//                          └──── another look ────────┴── the same entry bad twice ──► kRecompute
//
// Protocol rules 1 and 3. A single look never decides against a page: an entry may have been
// moving, or replaced, while it was read.
class PageLookup {
 public:
  enum class Step : uint8_t { kReadIndex, kReadPage, kReady, kRecompute };

  // `location` is null when none is cached.
  void begin(const PageRequest& request, const Location* location, const Geometry& geometry,
             uint64_t incarnation);

  Step step() const { return step_; }
  uint64_t slot() const { return slot_; }       // kReadPage: where to read
  Reason reason() const { return reason_; }     // kRecompute
  Version version() const { return version_; }  // kReady
  bool used_index() const { return looks_ > 0; }
  // Page reads so far.
  uint8_t reads() const { return reads_; }

  void index_landed(std::span<const Bucket, 2> buckets, const Geometry& geometry);

  // Whether a landed header shows the page that was asked for.
  PageFinding judge(const PageHeader& header) const;
  // Judges a landed header, and takes note. kGood: the payload's CRC decides, and whether any node
  // can have given out that version; the caller checks both and tells with payload_landed().
  // Everything else has moved the step on.
  PageFinding header_landed(const PageHeader& header);
  void payload_landed(const PageHeader& header, bool is_good);

 private:
  void next_candidate();
  void bad(PageFinding finding);
  void read(uint64_t slot, Version version);
  void give_up(Reason reason);

  Step step_ = Step::kReadIndex;
  Reason reason_ = Reason::kNone;
  uint8_t looks_ = 0;  // at the index
  uint8_t reads_ = 0;
  bool from_cache_ = false;
  uint64_t slot_ = 0;
  Version version_ = 0;
  PageExpectation expected_;
  Candidates candidates_;
  uint32_t at_ = 0;         // candidates tried in this look
  IndexEntry suspect_ = 0;  // the last candidate of this look that was not just another page
  PageFinding suspect_finding_ = PageFinding::kGood;
  IndexEntry last_suspect_ = 0;  // of the look before
};

}  // namespace farpage
