#pragma once

#include <algorithm>
#include <cstdint>

#include "prefetch/access.h"

namespace farpage::prefetch {

// Counts tokens alike in traces with a step a token and in those with a step a layer: a step that
// begins in a layer beyond all that its token has been in goes on with that token.
class TokenCounter {
 public:
  explicit TokenCounter(const HeadLayout& layout) : heads_(layout.heads) {}

  // Of an access, that of its token, from 0.
  uint64_t index_of(const Access& access) {
    const uint32_t layer = access.head / heads_;
    const bool is_new_step = tokens_ == 0 || access.step != step_;
    if (is_new_step && (tokens_ == 0 || layer <= farthest_layer_)) {
      ++tokens_;
      farthest_layer_ = layer;
    }
    farthest_layer_ = std::max(farthest_layer_, layer);
    step_ = access.step;
    return tokens_ - 1;
  }
  uint64_t tokens() const { return tokens_; }

 private:
  const uint32_t heads_;  // in each layer
  uint64_t tokens_ = 0;
  uint64_t step_ = 0;            // of the access before
  uint32_t farthest_layer_ = 0;  // of its token's
};

}  // namespace farpage::prefetch
