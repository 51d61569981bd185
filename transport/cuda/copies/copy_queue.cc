#include "transport/cuda/copies/copy_queue.h"

#include <utility>

namespace farpage::cuda {
Result<CopyQueue> CopyQueue::make(const std::shared_ptr<const GpuContext>& context,
                                  uint32_t batches) {
  const Driver& driver = context->driver();
  CopyQueue made(context);
  const CurrentContext current(*context);
  int result = current.result();
  for (Stream& stream : made.streams_) {
    if (result == kSuccess) result = driver.make_stream(&stream, kStreamNonBlocking);
  }
  while (result == kSuccess && made.batches_.size() < batches) {
    Batch batch;
    result = driver.make_event(&batch.event, kEventWithoutTiming);
    if (result == kSuccess) made.batches_.push_back(batch);
  }
  if (result == kSuccess) return made;
  return fail(Code::kUnavailable,
              driver_error(driver, result, "the driver gives no stream and events for copies"));
}

Result<void> CopyQueue::add_checks(const PageKernels& kernels, uint32_t most_pages) {
  auto checks =
      CopyChecks::make(context_, kernels, static_cast<uint32_t>(batches_.size()), most_pages);
  if (!checks) return tl::unexpected(checks.error());
  checks_ = std::move(*checks);
  return {};
}

CopyQueue::~CopyQueue() {
  if (context_ == nullptr) return;
  const Driver& driver = context_->driver();
  const CurrentContext current(*context_);
  for (const Batch& batch : batches_) driver.destroy_event(batch.event);
  for (Stream stream : streams_) {
    if (stream != nullptr) driver.destroy_stream(stream);
  }
}

bool CopyQueue::take_thread() {
  if (thread_ == std::this_thread::get_id()) return true;
  const Driver& driver = context_->driver();
  int mode = 0;
  int result = driver.use_context(context_->get());
  if (result == kSuccess) result = relax_capture(driver, mode);
  if (result != kSuccess) {
    note(result, "cuCtxSetCurrent");
    return false;
  }
  thread_ = std::this_thread::get_id();
  return true;
}

void CopyQueue::begin(uint32_t batch, CopyTo to, Stream on) {
  begun_ = batch;
  to_ = to;
  added_count_ = 0;
  Batch& begun = batches_[batch];
  begun.stream = on;
  begun.is_refused = begun.is_checked = begun.is_recorded = false;
}

void CopyQueue::add(const Copy& copy) {
  if (added_count_ > 0) {
    Copy& last = added_[added_count_ - 1];
    if (last.host + last.bytes == copy.host && last.device + last.bytes == copy.device) {
      last.bytes += copy.bytes;
      return;
    }
  }
  add_apart(copy);
}

void CopyQueue::add_apart(const Copy& copy) {
  if (added_count_ == added_.size()) enqueue_added();
  added_[added_count_++] = copy;
}

void CopyQueue::enqueue_added() {
  enqueue(std::span(added_).first(added_count_));
  added_count_ = 0;
}

// After a copy that was refused the others may be under way: the event tells of their end all the
// same.
void CopyQueue::end(std::span<const CopiedPage> pages) {
  enqueue_added();
  Batch& batch = batches_[begun_];
  batch.is_checked = !batch.is_refused && !pages.empty() && check(pages);
  if (batch.is_checked) batch.stream = checks_->stream();
  record(batch);
}

bool CopyQueue::end(PageScatter& scatter, uint32_t slot) {
  enqueue_added();
  Batch& batch = batches_[begun_];
  bool is_taken = true;
  if (!batch.is_refused) {
    const bool follows = follow(scatter.queue(), batch.stream);
    const auto started = follows ? scatter.start(slot) : Result<void>();
    if (!started) why_ = started.error().message;
    is_taken = follows && started;
    if (is_taken) batch.stream = scatter.queue().stream();
    batch.is_refused = !is_taken;
  }
  record(batch);
  return is_taken;
}

void CopyQueue::start(uint32_t batch, CopyTo to, std::span<const Copy> copies,
                      std::span<const CopiedPage> pages) {
  begin(batch, to);
  for (const Copy& copy : copies) add(copy);
  end(pages);
}

// A driver that takes none together gets a call for each, which costs more than a copy of a page.
void CopyQueue::enqueue(std::span<const Copy> copies) {
  Batch& batch = batches_[begun_];
  const bool are_together = copies.size() > 1 && context_->driver().copy_batch != nullptr;
  const char* const call = are_together             ? "cuMemcpyBatchAsync"
                           : to_ == CopyTo::kDevice ? "cuMemcpyHtoDAsync"
                           : to_ == CopyTo::kHost   ? "cuMemcpyDtoHAsync"
                                                    : "cuMemcpyDtoDAsync";
  while (!copies.empty() && !batch.is_refused) {
    const auto next = copies.first(are_together ? copies.size() : 1);
    copies = copies.subspan(next.size());
    const int result = are_together ? enqueue_together(next) : enqueue_one(next[0]);
    batch.is_refused = !succeeds(result, call);
  }
}

int CopyQueue::enqueue_together(std::span<const Copy> copies) {
  std::array<uint64_t, kMostTogether> host;
  std::array<uint64_t, kMostTogether> device;
  std::array<size_t, kMostTogether> bytes;
  for (size_t i = 0; i < copies.size(); ++i) {
    host[i] = reinterpret_cast<uint64_t>(copies[i].host);
    device[i] = copies[i].device;
    bytes[i] = copies[i].bytes;
  }
  const bool is_to_device = to_ != CopyTo::kHost;
  CopyAttributes of_all;
  size_t first = 0;
  return context_->driver().copy_batch((is_to_device ? device : host).data(),
                                       (is_to_device ? host : device).data(), bytes.data(),
                                       copies.size(), &of_all, &first, 1, batches_[begun_].stream);
}

int CopyQueue::enqueue_one(const Copy& copy) {
  const Driver& driver = context_->driver();
  if (to_ == CopyTo::kDevice) {
    return driver.copy_to_device(copy.device, copy.host, copy.bytes, batches_[begun_].stream);
  }
  if (to_ == CopyTo::kOnDevice) {
    const auto source = reinterpret_cast<uint64_t>(copy.host);
    return driver.copy_on_device(copy.device, source, copy.bytes, batches_[begun_].stream);
  }
  return driver.copy_to_host(copy.host, copy.device, copy.bytes, batches_[begun_].stream);
}

// What stands on the kernels' stream without a kernel does nothing.
bool CopyQueue::follow(KernelQueue& kernels, Stream copies) {
  return succeeds(kernels.follow(copies), "the wait of a kernel for copies");
}

bool CopyQueue::check(std::span<const CopiedPage> pages) {
  checks_->choose(begun_, pages);
  if (!follow(checks_->queue(), batches_[begun_].stream)) return false;
  const auto started = checks_->start(begun_, static_cast<uint32_t>(pages.size()));
  if (!started) why_ = started.error().message;
  return started.has_value();
}

// Without the event nothing would tell of the end: it is recorded later then.
void CopyQueue::record(Batch& batch) {
  if (is_broken_) return;
  const int result = context_->driver().record_event(batch.event, batch.stream);
  batch.is_recorded = succeeds(result, "cuEventRecord");
}

BatchState CopyQueue::poll(uint32_t number) {
  Batch& batch = batches_[number];
  if (!batch.is_recorded) record(batch);
  if (is_broken_) return BatchState::kFailed;
  if (!batch.is_recorded) return BatchState::kUnderWay;
  const int result = context_->driver().event_done(batch.event);
  if (result == kNotReady) {
    is_in_doubt_ = false;
    doubted_ns_ = 0;
    return BatchState::kUnderWay;
  }
  if (succeeds(result, "cuEventQuery")) {
    return batch.is_refused ? BatchState::kFailed : BatchState::kCopied;
  }
  return is_broken_ ? BatchState::kFailed : BatchState::kUnderWay;
}

bool CopyQueue::has_passed(Event event) {
  const int result = context_->driver().event_done(event);
  return result != kNotReady && succeeds(result, "cuEventQuery");
}

void CopyQueue::look_at_doubts(uint64_t now_ns) {
  if (!is_in_doubt_) return;
  if (doubted_ns_ == 0) doubted_ns_ = now_ns;
  is_broken_ |= now_ns - doubted_ns_ >= kDoubtNs;
}

bool CopyQueue::succeeds(int result, const char* call) {
  is_in_doubt_ = result != kSuccess;
  if (is_in_doubt_) {
    note(result, call);
  } else {
    doubted_ns_ = 0;
  }
  return !is_in_doubt_;
}

void CopyQueue::note(int result, const char* call) {
  is_broken_ |= ends_context(result);
  why_ = driver_error(context_->driver(), result, call);
}

}  // namespace farpage::cuda
