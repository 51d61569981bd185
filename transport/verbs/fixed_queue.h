#pragma once

#include <array>
#include <cstddef>

#include "base/check.h"

namespace farpage::verbs {

// A queue of at most kMost values, in place.
template <typename T, size_t kMost>
class FixedQueue {
 public:
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kMost; }
  size_t size() const { return count_; }
  const T& front() const { return values_[first_]; }

  void push(const T& value) {
    FARPAGE_CHECK(!full());
    values_[(first_ + count_++) % kMost] = value;
  }
  T pop() {
    FARPAGE_CHECK(!empty());
    const T value = values_[first_];
    first_ = (first_ + 1) % kMost;
    --count_;
    return value;
  }

 private:
  std::array<T, kMost> values_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace farpage::verbs
