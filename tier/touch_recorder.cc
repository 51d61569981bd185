#include "tier/touch_recorder.h"

#include <array>
#include <cstddef>

namespace farpage {

void TouchRecorder::attach(std::unique_ptr<Initiator> channel, const RemoteRegion& log,
                           Buffer* buffer, const Slice& slice) {
  channel_ = std::move(channel);
  log_ = log;
  buffer_ = buffer;
  slice_ = slice;
  buffer_->written = 0;
  recorded_ = 0;
  outstanding_ = 0;
  broken_ = false;
}

void TouchRecorder::skip() {
  if (channel_ != nullptr) poll();
}

void TouchRecorder::poll() {
  std::array<Completion, kOperations> completions;
  const size_t count = channel_->poll(completions);
  for (const Completion& completion : std::span(completions).first(count)) {
    const uint64_t operation = completion.tag - first_tag_;
    if (operation < kOperations) outstanding_ &= ~(1u << operation);
  }
}

void TouchRecorder::flush() {
  recorded_ = 0;
  const uint64_t block = buffer_->written / kTouchBlockSlots % kTouchBlocks;
  buffer_->written += kTouchBlockSlots;
  first_tag_ += kOperations;
  std::array<Operation, kOperations> operations;
  for (uint32_t i = 0; i < kOperations; ++i) {
    Operation& operation = operations[i];
    operation.tag = first_tag_ + i;
    operation.kind = OperationKind::kWrite;
    operation.remote = log_;
    operation.local_count = 1;
  }
  operations[0].remote_offset = offsetof(TouchLog, slots) + block * sizeof buffer_->slots;
  operations[0].local[0] = {slice_.data + offsetof(Buffer, slots), sizeof buffer_->slots,
                            slice_.local_key};
  operations[1].remote_offset = offsetof(TouchLog, written);
  operations[1].local[0] = {slice_.data + offsetof(Buffer, written), sizeof buffer_->written,
                            slice_.local_key};
  const PostResult posted = channel_->post(operations, kNever);
  outstanding_ = (1u << posted.accepted) - 1;
  broken_ = posted.status.code == Code::kUnavailable;
  if (outstanding_ > 0) poll();
}

}  // namespace farpage
