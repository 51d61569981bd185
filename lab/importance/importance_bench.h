#pragma once

#include <cstdint>

#include "base/status.h"

namespace farpage::paging {

struct ImportanceBenchOptions {
  uint64_t blocks = uint64_t{1 << 20} / 16 * 32;  // a million tokens, 16 each, in 32 layers
  uint64_t layers = 32;
  uint64_t step_blocks = 32 * 24;  // that get attention in a step
  uint64_t steps = 5'000;
};

struct ImportanceCost {
  double add_ns = 0;   // of a block in a step, its part of the step's end included
  double read_ns = 0;  // of any block, each after the one before
  uint64_t bytes = 0;
};

struct ImportanceBenchResult {
  ImportanceCost average;  // BlockImportance
  ImportanceCost window;   // WindowImportance, of 64 steps
};

// Feeds both with blocks drawn at random and reads them, on one thread.
Result<ImportanceBenchResult> run_importance_bench(const ImportanceBenchOptions& options);

}  // namespace farpage::paging
