#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace farpage::prefetch {

struct ImportanceOptions {
  uint64_t blocks = 0;       // of the context, in all layers
  double alpha = 0.1;        // weight of a step in the average, 0.03 to 0.5
  uint64_t sink_blocks = 1;  // the first of each layer, which hold the attention's sink
  uint64_t layers = 1;       // blocks / layers of them each, one layer after the other
  double pin_above = 1;      // what is more important than that is pinned until it has decayed

  Result<void> validate() const;
};

// How much attention each block of a context gets lately, from 0 to 1, as a moving average over
// steps: I ← α·s + (1 − α)·I, where s is the block's share of the attention in a step. Four bytes a
// block. One thread feeds it; any number may read meanwhile, without locks, and read for each block
// what it was after some write. docs/formats/block-importance.md
class BlockImportance {
 public:
  static Result<BlockImportance> make(const ImportanceOptions& options);

  // Of the current step, once for each block: another add adds to it, and rounds once more. A value
  // that is not a share, or not a block, is counted and left out.
  void add(uint32_t block, float mass);
  void end_step();
  // Another block has this number from now on, and nothing yet.
  void forget(uint32_t block);

  float importance(uint32_t block) const;  // 0 of what is no block
  bool is_pinned(uint32_t block) const;

  uint64_t steps() const { return step_->load(std::memory_order_relaxed); }
  uint64_t left_out() const { return left_out_; }  // for the thread that feeds it
  uint64_t bytes_used() const { return options_.blocks * sizeof(Entry); }

 private:
  using Entry = std::atomic<uint32_t>;
  static constexpr uint64_t kPowers = 1 << 10;

  explicit BlockImportance(const ImportanceOptions& options);

  float value(uint32_t entry, uint64_t step) const;
  uint32_t entry(float importance, uint64_t step) const;
  void forget_old();

  ImportanceOptions options_;
  std::unique_ptr<Entry[]> entries_;
  std::unique_ptr<std::atomic<uint64_t>> step_;
  std::array<float, kPowers> decayed_ = {};  // (1 − α)ⁿ
  uint64_t swept_ = 0;                       // the next block to be looked at for its age
  uint64_t left_out_ = 0;
};

}  // namespace farpage::prefetch
