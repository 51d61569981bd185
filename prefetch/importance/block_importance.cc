#include "prefetch/importance/block_importance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace farpage::prefetch {
namespace {

// An entry is −log2 of the importance in 2048ths, above the step in which that was so, modulo 2¹⁶.
// So it can be written and read at once, and what is not touched needs no write to decay.
constexpr uint32_t kStepBits = 16;
constexpr uint32_t kStepMask = (1U << kStepBits) - 1;
constexpr float kSteps = 2048;             // of the logarithm in 1
constexpr uint32_t kNothing = UINT16_MAX;  // below 2⁻³², and so 0
constexpr uint64_t kOldSteps = 1 << 13;    // no entry is left alone for twice as long

// (1 − α) to the power of kPowers is then below 2⁻³².
constexpr double kLeastAlpha = 0.03;

uint64_t age_of(uint32_t entry, uint64_t step) {
  return (step - (entry & kStepMask)) & kStepMask;
}

}  // namespace

Result<void> ImportanceOptions::validate() const {
  if (blocks == 0 || blocks > UINT32_MAX) {
    return fail(Code::kInvalid, "the importance of 1 to 2³² − 1 blocks can be kept");
  }
  // A NaN is in no range.
  if (!(alpha >= kLeastAlpha && alpha <= 0.5)) {
    return fail(Code::kInvalid,
                fmt::format("alpha is from {} to 0.5, and not {}", kLeastAlpha, alpha));
  }
  if (!(pin_above >= 0 && pin_above <= 1)) {
    return fail(Code::kInvalid, fmt::format("pin_above is from 0 to 1, and not {}", pin_above));
  }
  if (layers == 0 || blocks % layers != 0) {
    return fail(Code::kInvalid,
                fmt::format("{} layers cannot have {} blocks, as many each", layers, blocks));
  }
  return {};
}

Result<BlockImportance> BlockImportance::make(const ImportanceOptions& options) {
  if (auto valid = options.validate(); !valid) return tl::unexpected(valid.error());
  return BlockImportance(options);
}

BlockImportance::BlockImportance(const ImportanceOptions& options)
    : options_(options),
      entries_(std::make_unique<Entry[]>(options.blocks)),
      step_(std::make_unique<std::atomic<uint64_t>>(0)) {
  for (uint64_t block = 0; block < options.blocks; ++block) {
    entries_[block].store(kNothing << kStepBits, std::memory_order_relaxed);
  }
  for (uint64_t power = 0; power < kPowers; ++power) {
    decayed_[power] = static_cast<float>(std::pow(1 - options.alpha, static_cast<double>(power)));
  }
}

void BlockImportance::add(uint32_t block, float mass) {
  if (block >= options_.blocks || !(mass >= 0 && mass <= 1)) {
    ++left_out_;
    return;
  }
  const uint64_t step = step_->load(std::memory_order_relaxed);
  Entry& entry = entries_[block];
  const float before = value(entry.load(std::memory_order_relaxed), step);
  const float after = before + static_cast<float>(options_.alpha) * mass;
  entry.store(this->entry(after, step), std::memory_order_relaxed);
}

void BlockImportance::end_step() {
  forget_old();
  step_->store(step_->load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void BlockImportance::forget(uint32_t block) {
  if (block < options_.blocks) {
    entries_[block].store(kNothing << kStepBits, std::memory_order_relaxed);
  }
}

// So many blocks in each step that all are looked at before their step could be taken for another.
void BlockImportance::forget_old() {
  const uint64_t step = step_->load(std::memory_order_relaxed);
  for (uint64_t each = 0; each < (options_.blocks + kOldSteps - 1) / kOldSteps; ++each) {
    Entry& entry = entries_[swept_];
    const uint32_t old = entry.load(std::memory_order_relaxed);
    if (age_of(old, step) >= kOldSteps) {
      entry.store(this->entry(value(old, step), step), std::memory_order_relaxed);
    }
    swept_ = (swept_ + 1) % options_.blocks;
  }
}

float BlockImportance::importance(uint32_t block) const {
  if (block >= options_.blocks) return 0;
  // The step first: an entry read before it may have been written over meanwhile, and would decay
  // by steps that its block never went without.
  const uint64_t step = step_->load(std::memory_order_acquire);
  return value(entries_[block].load(std::memory_order_relaxed), step);
}

bool BlockImportance::is_pinned(uint32_t block) const {
  if (block >= options_.blocks) return false;
  const bool is_sink = block % (options_.blocks / options_.layers) < options_.sink_blocks;
  return is_sink || importance(block) > options_.pin_above;
}

float BlockImportance::value(uint32_t entry, uint64_t step) const {
  const uint32_t logarithm = entry >> kStepBits;
  if (logarithm == kNothing) return 0;
  // A reader may not have seen the newest step yet, which an entry has already.
  const uint64_t age = age_of(entry, step);
  const bool is_ahead = age > kStepMask / 2;
  const float decayed = is_ahead ? 1 : age < kPowers ? decayed_[age] : 0;
  return decayed * std::exp2(-static_cast<float>(logarithm) / kSteps);
}

uint32_t BlockImportance::entry(float importance, uint64_t step) const {
  const auto low = static_cast<uint32_t>(step & kStepMask);
  const float logarithm = -std::log2(std::min(importance, 1.0F)) * kSteps;
  // Also where the importance is 0, and so the logarithm is infinite.
  if (!(logarithm < static_cast<float>(kNothing))) return kNothing << kStepBits | low;
  return static_cast<uint32_t>(std::lround(logarithm)) << kStepBits | low;
}

}  // namespace farpage::prefetch
