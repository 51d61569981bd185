#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "prefetch/milestones/companions.h"
#include "prefetch/milestones/page_record.h"
#include "prefetch/per_page.h"

namespace farpage::prefetch {

// Pages that may come because another one came back, for ten steps from then on. On one thread.
class Candidates {
 public:
  static constexpr uint64_t kSteps = 10;

  // How it belongs to what came back; one may belong in several ways.
  enum Relation : uint8_t {
    kSegment = 1,    // a page of the same head, written in the same segment
    kHeads = 2,      // the same block, in another head of the layer
    kLayers = 4,     // the same block, in a layer close by
    kCompanion = 8,  // it has followed before
    kGone = 16,      // it made room itself
  };
  struct Candidate {
    PageNumber page = 0;
    PageNumber trigger = 0;      // the one that came back last
    uint64_t trigger_step = 0;   // when
    uint8_t relations = 0;       // Relations, of all that came back in the last ten steps
    uint8_t triggers = 0;        // how many these were; 255: or more
    uint8_t same_block = 0;      // of these, how many were of its block in other heads
    uint64_t block_step = 0;     // when the first of these came
    uint64_t foretold_step = 0;  // of who foretells: when it did last
    float probability = 0;       // ... and how likely it takes it to be
  };

  explicit Candidates(const HeadLayout& layout) : layout_(layout), companions_(kSteps) {}

  // A page came back in this step.
  void on_return(PageNumber page, uint64_t step, const PageRecords& records);
  void on_gone(PageNumber page, uint64_t step) { add(page, page, step, kGone); }
  // Another page has this number.
  void on_forget(PageNumber page);
  // This step is over.
  void on_step(uint64_t step);
  std::span<const Candidate> all() const { return all_; }
  std::span<Candidate> all() { return all_; }

 private:
  // Of a group each way, so that it is no larger than what can be fetched for it.
  static constexpr uint32_t kBlocks = 8;
  static constexpr uint32_t kHeadsAside = 8;
  static constexpr uint32_t kLayersAside = 4;
  static constexpr size_t kMost = 1 << 14;

  void add_segment(PageNumber page, uint64_t step, const PageRecords& records);
  void add_heads(PageNumber page, uint64_t step, const PageRecords& records);
  void add(PageNumber page, PageNumber trigger, uint64_t step, Relation relation);
  void remove(size_t place);

  const HeadLayout layout_;
  Companions companions_;
  std::vector<Candidate> all_;
  PerPage<uint32_t> place_{PageRecords::kNone};  // in all_
};

}  // namespace farpage::prefetch
