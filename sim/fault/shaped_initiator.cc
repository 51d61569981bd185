#include "sim/fault/shaped_initiator.h"

#include <algorithm>
#include <array>
#include <utility>

namespace farpage::fault {

ShapedInitiator::ShapedInitiator(std::unique_ptr<Initiator> inner, std::shared_ptr<ShapedLink> link,
                                 const Clock& clock, uint32_t max_in_flight)
    : ForwardingInitiator(std::move(inner)),
      link_(std::move(link)),
      clock_(clock),
      flights_(max_in_flight) {
  for (uint32_t i = max_in_flight; i-- > 0;) free_.push_back(i);
}

Status ShapedInitiator::post() {
  const uint64_t now_ns = clock_.now_ns();
  for (Operation& operation : written_) {
    const ShapedLink::Passage passage = link_->carry(now_ns, operation.bytes());
    flights_[free_.back()] = {operation.tag, passage.due_ns};
    operation.tag = free_.back();
    free_.pop_back();
    if (closed_) {
      end(operation, Outcome::kAborted);
    } else if (waiting_.empty() && passage.begin_ns <= now_ns) {
      inner().next() = operation;
    } else {
      waiting_.push_back({operation, passage.begin_ns});
    }
  }
  written_.clear();
  return inner().post();
}

void ShapedInitiator::begin_due(uint64_t now_ns) {
  if (waiting_.empty() || waiting_.front().begin_ns > now_ns) return;
  while (!waiting_.empty() && waiting_.front().begin_ns <= now_ns) {
    inner().next() = waiting_.front().operation;
    waiting_.pop_front();
  }
  (void)inner().post();  // what a broken channel has not begun ends as aborted
}

void ShapedInitiator::end(const Operation& changed, Outcome outcome) {
  const auto index = static_cast<uint32_t>(changed.tag);
  Completion completion;
  completion.outcome = outcome;
  completion.tag = flights_[index].tag;
  held_.push_back({completion, 0});
  free_.push_back(index);
}

size_t ShapedInitiator::poll(std::span<Completion> completions) {
  begin_due(clock_.now_ns());
  std::array<Completion, 64> polled;
  const size_t count = inner().poll(polled);
  for (Completion& completion : std::span(polled).first(count)) {
    const auto index = static_cast<uint32_t>(completion.tag);
    completion.tag = flights_[index].tag;
    held_.push_back({completion, completion.outcome == Outcome::kOk ? flights_[index].due_ns : 0});
    free_.push_back(index);
  }
  const uint64_t now_ns = clock_.now_ns();
  size_t given = 0;
  for (auto held = held_.begin(); held != held_.end() && given < completions.size();) {
    if (held->due_ns > now_ns && !closed_) {
      ++held;
      continue;
    }
    completions[given] = held->completion;
    if (held->due_ns > now_ns) completions[given].outcome = Outcome::kAborted;
    ++given;
    held = held_.erase(held);
  }
  return given;
}

// When poll() may have something, whatever the inner initiator does; 0: now.
uint64_t ShapedInitiator::due_ns() const {
  uint64_t next_ns = waiting_.empty() ? kNever : waiting_.front().begin_ns;
  for (const Held& held : held_) next_ns = std::min(next_ns, held.due_ns);
  return next_ns <= clock_.now_ns() || (!held_.empty() && closed_) ? 0 : next_ns;
}

void ShapedInitiator::wait(uint64_t deadline_ns) {
  if (const uint64_t due = due_ns(); due > 0) inner().wait(std::min(deadline_ns, due));
}

uint64_t ShapedInitiator::arm() {
  const uint64_t due = due_ns();
  return due == 0 ? 0 : std::min(due, inner().arm());
}

void ShapedInitiator::close() {
  closed_ = true;
  for (const Waiting& waiting : waiting_) end(waiting.operation, Outcome::kAborted);
  waiting_.clear();
  inner().close();
}

}  // namespace farpage::fault
