#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/runtime.h"
#include "control/messages.h"
#include "node/store/page_store.h"

namespace farpage {

// Walks the pool at a pace, over and over, and looks at each page as a reader does: it drops
// damaged pages before a client asks for them. And at the index as readers see it, beside the
// node's own. A little at a time, on the runtime's thread.
class Scrubber {
 public:
  // `bytes_per_s`: of payloads; not 0. `dropped`: a page that others may still hold.
  Scrubber(Runtime& runtime, PageStore& store, uint64_t bytes_per_s,
           std::function<void(const PageKey&)> dropped);

  const ScrubCounts& counts() const { return counts_; }

 private:
  void turn_in(uint64_t delay_ns);
  void turn();

  Runtime& runtime_;
  PageStore& store_;
  const uint64_t bytes_per_s_;
  const std::function<void(const PageKey&)> dropped_;
  uint32_t slot_ = 0;  // to look at next
  ScrubCounts counts_;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // outlived by timers that look at it
};

}  // namespace farpage
