#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"

namespace farpage::prefetch {

struct WindowOptions {
  uint64_t blocks = 0;       // of the context, in all layers
  uint64_t steps = 64;       // in the window, 1 to 1,024
  double top_share = 0.1;    // of the blocks that a step names
  uint64_t step_blocks = 0;  // that a step names at most

  Result<void> validate() const;
};

// In what share of the last steps each block was among those with the most attention, from 0 to 1.
// Four bytes a block, and four for each that is at the top, in each step of the window. One thread
// feeds it; any number may read meanwhile, without locks. docs/formats/block-importance.md
class WindowImportance {
 public:
  static Result<WindowImportance> make(const WindowOptions& options);

  // Of the current step, a block once. A value that is not a share, not a block, or one too many,
  // is counted and left out.
  void add(uint32_t block, float mass);
  void end_step();

  float importance(uint32_t block) const;  // 0 of what is no block

  uint64_t left_out() const { return left_out_; }  // for the thread that feeds it
  uint64_t bytes_used() const;

 private:
  using Count = std::atomic<uint32_t>;  // of steps in the window

  explicit WindowImportance(const WindowOptions& options);

  WindowOptions options_;
  std::unique_ptr<Count[]> counts_;
  std::vector<std::vector<uint32_t>> tops_;  // of the window's steps, a ring
  uint64_t next_ = 0;                        // in it
  std::vector<std::pair<float, uint32_t>> step_;
  uint64_t left_out_ = 0;
};

}  // namespace farpage::prefetch
