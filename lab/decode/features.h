#pragma once

#include <cstdint>
#include <map>

#include "base/random.h"
#include "lab/decode/decode_options.h"
#include "lab/decode/script.h"
#include "prefetch/access.h"

namespace farpage::decode {

struct TokenFeatures {
  float entropy = 0;
  float margin = 0;
  prefetch::Mark mark = prefetch::Mark::kNone;
};

// Features of the tokens that an engine would know. The decoder is sure of what it writes into
// milestones: low entropy, high margin. A feature tells the truth with the chance
// `informativeness`, or else is drawn without a look at it.
class Features {
 public:
  Features(const DecodeOptions& options, const Script& script);

  // Of each step once, in order.
  TokenFeatures of(uint64_t step);

 private:
  void draw_marks();
  bool draw_sure(uint64_t position);

  const DecodeOptions& options_;
  const Script& script_;
  Random random_;
  double sure_by_chance_ = 0;
  std::map<uint64_t, prefetch::Mark> marks_;  // by step
  uint64_t position_ = 0;                     // of which it is known whether it is sure
  bool is_sure_ = false;
  bool is_known_ = false;
};

}  // namespace farpage::decode
