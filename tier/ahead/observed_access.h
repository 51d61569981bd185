#pragma once

#include <cmath>
#include <cstdint>

#include "integrity/page_key.h"
#include "prefetch/access.h"

namespace farpage {

// An engine's word that a page was accessed, and by what, in a step of its decode. Of what it does
// not measure, 0. prefetch::Access says what each means, and in which unit.
struct ObservedAccess {
  PageKey key;
  uint64_t step = 0;
  uint32_t head = 0;  // counted through all layers
  float mass = 0;
  float score = 0;
  float similarity = 0;
  uint32_t category = 0;
  float entropy = 0;
  float margin = 0;
  prefetch::Mark mark = prefetch::Mark::kNone;
};

// Fields that are not a number, or not a mark, are 0 afterwards. Answers whether there was any.
inline bool mend(ObservedAccess& access) {
  bool is_mended = false;
  for (float* value :
       {&access.mass, &access.score, &access.similarity, &access.entropy, &access.margin}) {
    if (std::isfinite(*value)) continue;
    *value = 0;
    is_mended = true;
  }
  if (static_cast<uint32_t>(access.mark) >= prefetch::kMarks) {
    access.mark = prefetch::Mark::kNone;
    is_mended = true;
  }
  return is_mended;
}

}  // namespace farpage
