#include "prefetch/importance/window_importance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace farpage::prefetch {

Result<void> WindowOptions::validate() const {
  if (blocks == 0 || blocks > UINT32_MAX || step_blocks == 0 || step_blocks > blocks) {
    return fail(Code::kInvalid,
                "the importance of 1 to 2³² − 1 blocks can be kept, and a step names some of them");
  }
  if (steps == 0 || steps > 1'024) {
    return fail(Code::kInvalid, fmt::format("a window has 1 to 1,024 steps, and not {}", steps));
  }
  // A NaN is in no range.
  if (!(top_share > 0 && top_share <= 1)) {
    return fail(Code::kInvalid, fmt::format("top_share is above 0, to 1, and not {}", top_share));
  }
  return {};
}

Result<WindowImportance> WindowImportance::make(const WindowOptions& options) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  return WindowImportance(options);
}

WindowImportance::WindowImportance(const WindowOptions& options)
    : options_(options), counts_(std::make_unique<Count[]>(options.blocks)), tops_(options.steps) {
  const double most = std::ceil(options.top_share * static_cast<double>(options.step_blocks));
  for (auto& top : tops_) top.reserve(static_cast<size_t>(most));
  step_.reserve(options.step_blocks);
}

void WindowImportance::add(uint32_t block, float mass) {
  if (block >= options_.blocks || !(mass >= 0 && mass <= 1) ||
      step_.size() == options_.step_blocks) {
    ++left_out_;
    return;
  }
  step_.emplace_back(mass, block);
}

void WindowImportance::end_step() {
  std::vector<uint32_t>& top = tops_[next_];
  next_ = (next_ + 1) % tops_.size();
  for (const uint32_t block : top) counts_[block].fetch_sub(1, std::memory_order_relaxed);
  top.clear();
  const double most = std::ceil(options_.top_share * static_cast<double>(step_.size()));
  const auto end = step_.begin() + static_cast<ptrdiff_t>(most);
  std::ranges::nth_element(step_, end, std::greater<>());
  for (auto each = step_.begin(); each != end; ++each) {
    top.push_back(each->second);
    counts_[each->second].fetch_add(1, std::memory_order_relaxed);
  }
  step_.clear();
}

float WindowImportance::importance(uint32_t block) const {
  if (block >= options_.blocks) return 0;
  const auto steps = static_cast<float>(counts_[block].load(std::memory_order_relaxed));
  return std::min(1.0F, steps / static_cast<float>(options_.steps));
}

uint64_t WindowImportance::bytes_used() const {
  uint64_t bytes = options_.blocks * sizeof(Count) + step_.capacity() * sizeof(step_[0]);
  for (const auto& top : tops_) bytes += top.capacity() * sizeof(uint32_t);
  return bytes;
}

}  // namespace farpage::prefetch
