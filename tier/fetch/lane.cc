#include "tier/fetch/lane.h"

#include <utility>

#include "base/check.h"
#include "tier/fetch/lane_engine.h"

namespace farpage {

Fetch::Fetch(Fetch&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      state_(std::exchange(other.state_, nullptr)) {}

Fetch& Fetch::operator=(Fetch&& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(state_, other.state_);
  return *this;
}

Fetch::~Fetch() {
  if (state_ != nullptr) engine_->recycle(state_);
}

bool Fetch::done() const {
  return state_ == nullptr || state_->pending == 0;
}
bool Fetch::released() const {
  return state_ == nullptr || (state_->pending == 0 && state_->held == 0);
}
void Fetch::wait() {
  if (state_ != nullptr) engine_->wait_done(state_);
}
bool Fetch::wait_released(uint64_t deadline_ns) {
  return state_ == nullptr || engine_->wait_released(state_, deadline_ns);
}
CompletionCounter& Fetch::counter() {
  FARPAGE_CHECK(state_ != nullptr);
  return state_->counted();
}

IndexQuestion::IndexQuestion(IndexQuestion&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      state_(std::exchange(other.state_, nullptr)) {}

IndexQuestion& IndexQuestion::operator=(IndexQuestion&& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(state_, other.state_);
  return *this;
}

IndexQuestion::~IndexQuestion() {
  if (state_ != nullptr) engine_->recycle(state_);
}

bool IndexQuestion::done() const {
  return state_ == nullptr || state_->done();
}
void IndexQuestion::wait() {
  if (state_ != nullptr) engine_->wait_done(state_);
}

Lane::Lane(std::unique_ptr<LaneEngine> engine) : engine_(std::move(engine)) {}
Lane::Lane(Lane&&) noexcept = default;
Lane& Lane::operator=(Lane&&) noexcept = default;
Lane::~Lane() = default;

Fetch Lane::fetch(std::span<const PageRequest> requests, std::span<PageVerdict> verdicts,
                  uint64_t deadline_ns, const FetchOptions& options) {
  return Fetch(engine_.get(), engine_->start(requests, verdicts, deadline_ns, options));
}

void Lane::reserve_fetches(uint32_t more) {
  engine_->reserve_fetches(more);
}

bool Lane::contains(const PageKey& key, uint64_t deadline_ns) {
  const PageRequest request = {.key = key, .min_version = 0, .destination = {}};
  PageVerdict verdict;
  fetch({&request, 1}, {&verdict, 1}, deadline_ns).wait();
  return verdict.verdict == Verdict::kReady;
}

bool Lane::look_up(std::span<const PageKey> keys, std::span<KeyAnswer> answers) {
  return engine_->look_up(keys, answers);
}

IndexQuestion Lane::ask(std::span<const PageKey> keys, std::span<KeyAnswer> answers,
                        uint64_t deadline_ns) {
  return IndexQuestion(engine_.get(), engine_->ask(keys, answers, deadline_ns));
}

bool Lane::progress() {
  return engine_->progress();
}
void Lane::wait(uint64_t until_ns) {
  engine_->wait_moved(until_ns);
}
void Lane::wait_for_either(Lane& lane, Lane& other, uint64_t until_ns) {
  LaneEngine* const lanes[] = {lane.engine_.get(), other.engine_.get()};
  LaneEngine::wait_moved(lanes, until_ns);
}
void Lane::copy_straight(PageCopier& copier) {
  engine_->copy_straight(copier);
}
void Lane::check_with(CheckerFactory& checkers) {
  engine_->check_with(checkers);
}
void Lane::allow_interrupts() {
  engine_->allow_interrupts();
}
void Lane::interrupt() {
  engine_->interrupt();
}
LaneStats Lane::stats() const {
  return engine_->stats();
}
VerdictCounts Lane::verdicts() const {
  return engine_->verdicts();
}
const std::byte* Lane::mapped_payload(const PageKey& key) const {
  return engine_->mapped_payload(key);
}

}  // namespace farpage
