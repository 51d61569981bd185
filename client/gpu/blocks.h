#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace farpage {

// The free ones of some blocks of bounce memory, by number, and which operation has the next one:
// that which has been without a block for longest comes first, then the others without one.
class Blocks {
 public:
  // What an operation keeps.
  struct Hunger {
    bool is_hungry = false;  // without a block, and with pages to begin
    uint64_t number = 0;     // counts up, as they become so
  };

  Blocks(uint32_t first, uint32_t count) {
    free_.reserve(count);
    for (uint32_t block = first + count; block-- > first;) free_.push_back(block);
  }

  // Each operation calls set_hungry() between two of these.
  void begin_turn() { first_hungry_ = std::exchange(next_hungry_, UINT64_MAX); }
  void set_hungry(Hunger& hunger, bool is_hungry) {
    if (is_hungry != hunger.is_hungry) hungry_ += is_hungry ? 1 : -1;
    if (is_hungry && !hunger.is_hungry) hunger.number = ++hungry_count_;
    hunger.is_hungry = is_hungry;
    if (is_hungry) next_hungry_ = std::min(next_hungry_, hunger.number);
  }
  bool are_wanted() const { return hungry_ > 0; }

  bool may_take(const Hunger& hunger) const {
    const bool is_first = hunger.is_hungry && hunger.number == first_hungry_;
    const uint32_t others = hungry_ - (hunger.is_hungry ? 1 : 0);
    return free_.size() > (is_first ? 0 : others);
  }
  uint32_t take() {
    const uint32_t block = free_.back();
    free_.pop_back();
    return block;
  }
  void give_back(uint32_t block) { free_.push_back(block); }

 private:
  std::vector<uint32_t> free_;
  uint32_t hungry_ = 0;  // operations; their numbers:
  uint64_t hungry_count_ = 0;
  uint64_t first_hungry_ = UINT64_MAX;  // the least of the last turn's
  uint64_t next_hungry_ = UINT64_MAX;   // ... and of this one's
};

}  // namespace farpage
