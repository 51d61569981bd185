#include "transport/cuda/copies/landed_checker.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "integrity/crc32c.h"

namespace farpage::cuda {

Result<std::unique_ptr<LandedChecker>> LandedChecker::make(
    const std::shared_ptr<const GpuContext>& context) {
  const auto flush = write_flush(context->driver(), context->device());
  if (!flush) return tl::unexpected(flush.error());
  auto queue = CopyQueue::make(context, kBatches);
  if (!queue) return tl::unexpected(queue.error());
  auto zero = PinnedMemory::make(context, sizeof(uint64_t));
  if (!zero) return tl::unexpected(zero.error());
  const CurrentContext current(*context);
  const auto kernels = PageKernels::load(context->driver(), context->device());
  if (!kernels) return tl::unexpected(kernels.error());
  if (auto added = queue->add_checks(*kernels, kPagesOfBatch); !added) {
    return tl::unexpected(added.error());
  }
  return std::unique_ptr<LandedChecker>(
      new LandedChecker(std::move(*zero), std::move(*queue), *flush));
}

LandedChecker::LandedChecker(PinnedMemory zero, CopyQueue queue, WriteFlush flush)
    : zero_(std::move(zero)), queue_(std::move(queue)), flush_(flush) {}

LandedChecker::~LandedChecker() {
  const CurrentContext current(*queue_.context());
  const auto is_under_way = [this](uint32_t number) {
    look_at(number);
    return batches_[number].state == State::kUnderWay;
  };
  for (uint32_t number = 0; number < batches_.size(); ++number) {
    while (is_under_way(number)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // What stands there without a check, because the driver has refused that.
  (void)queue_.checks()->queue().wait();
}

Result<void> LandedChecker::try_at(uint64_t address) {
  const std::array<std::byte, 64> zeros = {};
  const CurrentContext current(*queue_.context());
  const Driver& driver = queue_.context()->driver();
  const int result = driver.fill(address, 0, zeros.size(), queue_.checks()->stream());
  if (!queue_.succeeds(result, "cuMemsetD8Async")) return fail(Code::kUnavailable, why());
  const auto* const there = reinterpret_cast<const std::byte*>(address);
  const PayloadCheck check = {there, zeros.size(), crc32c(0, zeros.data(), zeros.size()), 0};
  begin({&check, 1});
  CheckEnd end;
  while (poll({&end, 1}) == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (end.outcome == CheckEnd::Outcome::kGood) return {};
  (void)queue_.checks()->queue().wait();  // the fill, too
  return fail(Code::kUnavailable, end.outcome == CheckEnd::Outcome::kFailed
                                      ? why()
                                      : "it has counted a wrong CRC in its own memory");
}

size_t LandedChecker::begin(std::span<const PayloadCheck> checks) {
  if (!may_begin_) return 0;
  size_t begun = 0;
  for (uint32_t number = 0; number < batches_.size() && begun < checks.size(); ++number) {
    if (batches_[number].state != State::kFree) continue;
    const auto left = checks.subspan(begun);
    const auto next = left.first(std::min<size_t>(left.size(), kPagesOfBatch));
    start(number, next);
    begun += next.size();
  }
  return begun;
}

void LandedChecker::start(uint32_t number, std::span<const PayloadCheck> checks) {
  Batch& batch = batches_[number];
  batch.count = static_cast<uint32_t>(checks.size());
  batch.told = 0;
  std::ranges::copy(checks, batch.checks.begin());
  std::array<CopiedPage, kPagesOfBatch> pages;
  for (uint32_t i = 0; i < batch.count; ++i) {
    const auto address = reinterpret_cast<uint64_t>(checks[i].data);
    FARPAGE_CHECK(CopyChecks::can_check(address));
    pages[i] = {address, static_cast<uint32_t>(checks[i].bytes)};
  }
  if (!queue_.take_thread() || queue_.is_broken() || !flush_writes()) {
    return lose(batch);
  }
  queue_.start(number, CopyTo::kOnDevice, {}, std::span(pages).first(batch.count));
  batch.state = State::kUnderWay;
}

// Of all that the NIC has told of.
bool LandedChecker::flush_writes() {
  const Driver& driver = queue_.context()->driver();
  int result = kSuccess;
  if (flush_ == WriteFlush::kByHost) {
    result = driver.flush_writes(kFlushCurrentContext, kFlushToOwner);
  } else if (flush_ == WriteFlush::kInStream) {
    result = driver.stream_wait_value(queue_.checks()->stream(), zero_.address(), 0,
                                      kWaitGreaterOrEqual | kWaitFlush);
  }
  return queue_.succeeds(result, "the flush of what network cards have written");
}

void LandedChecker::look_at(uint32_t number) {
  Batch& batch = batches_[number];
  if (batch.state != State::kUnderWay) return;
  const BatchState state = queue_.poll(number);
  if (queue_.is_in_doubt()) queue_.look_at_doubts(boottime_clock().now_ns());
  if (state == BatchState::kUnderWay) return;
  const bool has_counted = state == BatchState::kCopied && queue_.is_checked(number);
  if (!has_counted) return lose(batch);
  batch.state = State::kGood;
}

void LandedChecker::lose(Batch& batch) {
  batch.state = State::kFailed;
  ++refusals_;
}

CheckEnd LandedChecker::end_of(uint32_t number, uint32_t page) const {
  const Batch& batch = batches_[number];
  const PayloadCheck& check = batch.checks[page];
  if (batch.state == State::kFailed) return {CheckEnd::Outcome::kFailed, check.tag};
  const bool is_good = queue_.checks()->crc(number, page) == check.crc;
  return {is_good ? CheckEnd::Outcome::kGood : CheckEnd::Outcome::kBad, check.tag};
}

size_t LandedChecker::poll(std::span<CheckEnd> ends) {
  size_t count = 0;
  for (uint32_t number = 0; number < batches_.size(); ++number) {
    look_at(number);
    Batch& batch = batches_[number];
    if (batch.state != State::kGood && batch.state != State::kFailed) continue;
    while (batch.told < batch.count && count < ends.size()) {
      ends[count++] = end_of(number, batch.told++);
    }
    if (batch.told == batch.count) batch.state = State::kFree;
  }
  return count;
}

}  // namespace farpage::cuda
