#include "lab/importance/importance_bench.h"

#include <chrono>
#include <vector>

#include "base/random.h"
#include "prefetch/importance/block_importance.h"
#include "prefetch/importance/window_importance.h"

namespace farpage::paging {
namespace {

constexpr uint64_t kReads = 4'000'000;
constexpr uint64_t kDrawn = 1 << 16;

std::vector<uint32_t> draw(uint64_t blocks) {
  Random random(blocks);
  std::vector<uint32_t> drawn(kDrawn);
  for (uint32_t& each : drawn) each = static_cast<uint32_t>(random.below(blocks));
  return drawn;
}

template <typename Importance>
ImportanceCost measure(Importance& importance, const ImportanceBenchOptions& options) {
  using Clock = std::chrono::steady_clock;
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  const std::vector<uint32_t> drawn = draw(options.blocks);
  ImportanceCost cost;
  cost.bytes = importance.bytes_used();
  const auto begin = Clock::now();
  uint64_t next = 0;
  for (uint64_t step = 0; step < options.steps; ++step) {
    for (uint64_t i = 0; i < options.step_blocks; ++i, ++next) {
      importance.add(drawn[next % kDrawn], 0.04F);
    }
    importance.end_step();
  }
  const auto middle = Clock::now();
  for (uint64_t read = 0; read < kReads;) {
    // Never above 2; but the next cannot begin before this one has its answer.
    read += importance.importance(drawn[read % kDrawn]) > 2 ? 2 : 1;
  }
  const auto end = Clock::now();
  cost.add_ns = Nanoseconds(middle - begin).count() / static_cast<double>(next);
  cost.read_ns = Nanoseconds(end - middle).count() / static_cast<double>(kReads);
  return cost;
}

}  // namespace

Result<ImportanceBenchResult> run_importance_bench(const ImportanceBenchOptions& options) {
  prefetch::ImportanceOptions average_options;
  average_options.blocks = options.blocks;
  average_options.layers = options.layers;
  auto average = prefetch::BlockImportance::make(average_options);
  if (!average) return tl::unexpected(average.error());
  prefetch::WindowOptions window_options;
  window_options.blocks = options.blocks;
  window_options.step_blocks = options.step_blocks;
  auto window = prefetch::WindowImportance::make(window_options);
  if (!window) return tl::unexpected(window.error());
  return ImportanceBenchResult{measure(*average, options), measure(*window, options)};
}

}  // namespace farpage::paging
