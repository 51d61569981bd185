#include "transport/fault/shaped_channel.h"

#include <algorithm>
#include <array>
#include <utility>

namespace farpage::fault {

ShapedChannel::ShapedChannel(std::unique_ptr<Channel> inner, std::shared_ptr<ShapedLink> link,
                             const Clock& clock, uint32_t max_in_flight)
    : link_(std::move(link)), clock_(clock), flights_(max_in_flight), inner_(std::move(inner)) {
  for (uint32_t i = max_in_flight; i-- > 0;) free_.push_back(i);
}

PostResult ShapedChannel::post(std::span<const Operation> operations, uint64_t deadline_ns) {
  operations = operations.first(std::min(operations.size(), free_.size()));
  const uint64_t now_ns = clock_.now_ns();
  changed_.assign(operations.begin(), operations.end());
  for (size_t i = 0; i < changed_.size(); ++i) changed_[i].tag = free_[free_.size() - 1 - i];
  const PostResult posted = inner_->post(changed_, deadline_ns);
  for (size_t i = 0; i < posted.accepted; ++i) {
    flights_[free_.back()] = {operations[i].tag, link_->carry(now_ns, operations[i].bytes())};
    free_.pop_back();
  }
  return posted;
}

size_t ShapedChannel::poll(std::span<Completion> completions) {
  std::array<Completion, 64> polled;
  const size_t count = inner_->poll(polled);
  for (Completion& completion : std::span(polled).first(count)) {
    uint64_t due_ns = 0;
    if (completion.kind == CompletionKind::kOperation) {
      const auto index = static_cast<uint32_t>(completion.tag);
      completion.tag = flights_[index].tag;
      if (completion.outcome == Outcome::kOk) due_ns = flights_[index].due_ns;
      free_.push_back(index);
    }
    held_.push_back({completion, due_ns});
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

void ShapedChannel::wait(uint64_t deadline_ns) {
  uint64_t next_ns = kNever;
  for (const Held& held : held_) next_ns = std::min(next_ns, held.due_ns);
  if (!held_.empty() && (closed_ || next_ns <= clock_.now_ns())) return;
  inner_->wait(std::min(deadline_ns, next_ns));
}

void ShapedChannel::close() {
  closed_ = true;
  inner_->close();
}

}  // namespace farpage::fault
