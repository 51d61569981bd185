#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "integrity/page_key.h"

namespace farpage {

// Pages that a node is to look at again, on their way from the lanes that found them to the sender
// of the report. The limits stand here, in front: a key passes once a second, and so do at most
// kMostKeys of all keys; the rest costs a few loads.
class PageReports {
 public:
  static constexpr size_t kMostKeys = 256;

  // False: not now. Wait-free and without an allocation; from any thread.
  bool add(const PageKey& key, uint64_t now_ns);

  // Reports added since the last call. By one thread at a time.
  std::vector<PageKey> take();

 private:
  struct Place {
    std::atomic<uint64_t> passed{0};  // when, and a part of the key; 0: never
    std::atomic<uint64_t> low{0};
    std::atomic<uint64_t> high{0};
    std::atomic<bool> waits{false};  // to be taken
  };

  std::array<Place, kMostKeys> places_;
  std::atomic<uint32_t> full_until_{0};  // as a time of a place
  std::atomic<bool> full_{false};
};

}  // namespace farpage
