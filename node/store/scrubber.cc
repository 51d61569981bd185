#include "node/store/scrubber.h"

#include <algorithm>

namespace farpage {
namespace {

// Of one turn: a tenth of a millisecond or so of the thread that answers renewals and takes puts.
// Fewer bytes would not pay for waking it. An empty pool is walked no faster.
constexpr uint64_t kTurnBytes = 512 * kKiB;
constexpr uint32_t kTurnSlots = 4096;

}  // namespace

Scrubber::Scrubber(Runtime& runtime, PageStore& store, uint64_t bytes_per_s,
                   std::function<void(const PageKey&)> dropped)
    : runtime_(runtime), store_(store), bytes_per_s_(bytes_per_s), dropped_(std::move(dropped)) {
  turn_in(0);
}

void Scrubber::turn_in(uint64_t delay_ns) {
  runtime_.after(delay_ns, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) turn();
  });
}

void Scrubber::turn() {
  const uint32_t first = slot_;
  const uint32_t end = std::min(store_.slots().size(), first + kTurnSlots);
  uint64_t bytes = 0;
  while (slot_ < end && bytes < kTurnBytes) {
    const PageStore::SlotFinding found = store_.check_slot(slot_++);
    bytes += found.bytes;
    counts_.bytes += found.bytes;
    if (found.code != Code::kAborted) continue;
    ++counts_.dropped;
    if (found.key) {
      dropped_(*found.key);
    } else {
      bytes = kTurnBytes;  // it was looked for in the whole index: enough for one turn
    }
  }
  counts_.entries += store_.mend_index(first, slot_);
  if (slot_ == store_.slots().size()) {
    slot_ = 0;
    ++counts_.passes;
  }
  turn_in(std::max(bytes, kTurnBytes) * kSecond / bytes_per_s_);
}

}  // namespace farpage
