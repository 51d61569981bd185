#pragma once

#include "prefetch/access.h"

namespace farpage::prefetch {

// Where pages lie that a scheduler fetches ahead: a wire, or a simulated one. On one thread.
class PageSource {
 public:
  virtual ~PageSource() = default;

  // Begins to bring a page; false: it cannot now. The source's driver tells the scheduler once it
  // has come, or will not.
  virtual bool begin(PageNumber page) = 0;
};

}  // namespace farpage::prefetch
