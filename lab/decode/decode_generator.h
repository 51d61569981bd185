#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "lab/decode/decode_options.h"
#include "lab/decode/features.h"
#include "lab/decode/head_selection.h"
#include "lab/decode/script.h"
#include "lab/decode/wakes.h"
#include "prefetch/access.h"

namespace farpage::decode {

struct MadePage {
  uint32_t head;
  uint32_t position;
};

// Makes up what a decoder with sparse attention reads: a step is a token, and in it every head, of
// one layer after another, reads the pages that it selects: those of the sink, the newest, and far
// ones. docs/generate.md says how these change. Memory grows with the pages and not with the steps.
class DecodeGenerator {
 public:
  explicit DecodeGenerator(const DecodeOptions& options);
  DecodeGenerator(const DecodeGenerator&) = delete;
  DecodeGenerator& operator=(const DecodeGenerator&) = delete;

  const Script& script() const { return script_; }
  // Appends the accesses of the next step.
  void step(std::vector<prefetch::Access>& to);
  // Of those that have been accessed, by page number.
  std::span<const MadePage> pages() const { return pages_; }

 private:
  struct Head {
    HeadSelection selection;
    double copied;
    std::vector<uint32_t> rank_of_place;        // of its selection
    std::vector<prefetch::PageNumber> numbers;  // by position
  };

  struct Selected {
    uint32_t position;
    uint32_t place;  // in the head's selection: a far page's does not change
  };

  std::vector<double> churn_of_heads();
  FarRange far_range() const;
  void begin_page();
  void redraw();
  void wake_due();
  void wake_first(Wake wake);
  void wake(const Wake& wake);
  bool copies(uint32_t head);
  void schedule_sleepers();
  void end_milestone();
  double gap_factor() const;
  void emit(uint32_t head, const TokenFeatures& features, std::vector<prefetch::Access>& to);
  prefetch::PageNumber number(uint32_t head, uint32_t position);

  const DecodeOptions options_;
  const Script script_;
  Random random_;
  Features features_;
  Wakes wakes_;
  const uint32_t sinks_;
  const uint32_t recent_;  // positions
  const double copies_;    // heads that a wake reaches, on average
  std::vector<Head> heads_;
  std::vector<std::vector<float>> masses_;  // by pages selected, by rank
  std::vector<uint32_t> returns_left_;      // by position, of milestones
  std::vector<MadePage> pages_;
  std::vector<Selected> selected_;  // by emit(), which would otherwise allocate for every head
  uint64_t step_ = 0;
  uint32_t position_ = 0;  // of the newest page
};

}  // namespace farpage::decode
