#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace farpage {

// Which of `pages` pages a fetch asks for: each drawn by itself, or, in put order, as many as it
// wants from a drawn one on, as a prompt's are. A copy draws the same again.
class PageDraw {
 public:
  PageDraw(bool in_put_order, uint64_t seed, size_t pages)
      : in_put_order_(in_put_order), random_(seed), pages_(pages) {}

  void begin_fetch() { next_ = random_.below(pages_); }
  size_t page() {
    if (!in_put_order_) return random_.below(pages_);
    const size_t page = next_;
    next_ = page + 1 < pages_ ? page + 1 : 0;
    return page;
  }

 private:
  bool in_put_order_;
  Random random_;
  size_t pages_;
  size_t next_ = 0;
};

}  // namespace farpage
