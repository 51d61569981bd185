#include "tier/push/push.h"

#include <utility>

#include "tier/push/push_engine.h"

namespace farpage {

Push::Push(Push&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      state_(std::exchange(other.state_, nullptr)) {}

Push& Push::operator=(Push&& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(state_, other.state_);
  return *this;
}

Push::~Push() {
  if (state_ != nullptr) engine_->recycle(state_);
}

bool Push::done() const {
  return state_->pending == 0;
}
void Push::wait() {
  engine_->wait_done(state_);
}
CompletionCounter& Push::counter() {
  return state_->counter;
}

std::span<const std::byte> Push::payload(size_t page) const {
  FARPAGE_CHECK(state_->verdicts[page].verdict == Verdict::kReady && state_->places[page]);
  const std::byte* place = state_->places[page]->slice().data;
  return {place + sizeof(PageHeader), state_->payload_bytes[page]};
}

PageLease Push::take(size_t page) {
  FARPAGE_CHECK(state_->verdicts[page].verdict == Verdict::kReady && state_->places[page]);
  PageLease place = std::move(*state_->places[page]);
  state_->places[page].reset();
  return place;
}

PushLane::PushLane(std::unique_ptr<PushEngine> engine) : engine_(std::move(engine)) {}
PushLane::PushLane(PushLane&&) noexcept = default;
PushLane& PushLane::operator=(PushLane&&) noexcept = default;
PushLane::~PushLane() = default;

Push PushLane::push(std::span<const PushedPage> requests, std::span<PageVerdict> verdicts,
                    uint64_t deadline_ns) {
  return Push(engine_.get(), engine_->start(requests, verdicts, deadline_ns));
}

void PushLane::progress() {
  engine_->progress();
}
void PushLane::wait(uint64_t until_ns) {
  engine_->wait(until_ns);
}
PushStats PushLane::stats() const {
  return engine_->stats();
}

}  // namespace farpage
