#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/operation.h"

namespace farpage {

// What a lane is about to post to one peer, in order, and in runs of one deadline: a backend that
// copies stops at the deadline that a post names. Allocates nothing after it was made.
class OperationQueue {
 public:
  explicit OperationQueue(size_t most) : operations_(most), runs_(most) {}

  bool empty() const { return size_ == 0; }
  std::span<const Operation> operations() const { return std::span(operations_).first(size_); }

  size_t runs() const { return run_count_; }
  uint64_t deadline_ns(size_t run) const { return runs_[run].deadline_ns; }
  // Behind the last of its operations.
  size_t end(size_t run) const { return run + 1 < run_count_ ? runs_[run + 1].begin : size_; }

  // One more, to be filled in place; what stood there before still does.
  Operation& add(uint64_t deadline_ns) {
    if (deadline_ns != last_ns_ || run_count_ == 0) {
      runs_[run_count_++] = {deadline_ns, size_};
      last_ns_ = deadline_ns;
    }
    return operations_[size_++];
  }

  void clear() { size_ = run_count_ = 0; }

  // Those that `goes` says go, with `deadline_of` for the runs of the rest. `goes` is asked of each
  // operation once, in order.
  template <typename Goes, typename DeadlineOf>
  void remove(const Goes& goes, const DeadlineOf& deadline_of) {
    const size_t before = size_;
    clear();
    for (size_t at = 0; at < before; ++at) {
      const Operation operation = operations_[at];
      if (!goes(operation)) add(deadline_of(operation)) = operation;
    }
  }

 private:
  struct Run {
    uint64_t deadline_ns = 0;
    size_t begin = 0;
  };

  std::vector<Operation> operations_;
  size_t size_ = 0;
  std::vector<Run> runs_;
  size_t run_count_ = 0;
  uint64_t last_ns_ = 0;  // of the last run
};

}  // namespace farpage
