#include "tier/staging.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/units.h"
#include "transport/transfer_counters.h"

namespace farpage {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kLongestWaitNs = 3'600 * kSecond;
constexpr size_t kPollBatch = 32;
// An immediate's counter is used again only after the node has answered for it (protocol rule 16).
constexpr size_t kMaxSegments = kTransferCounters / 2;

}  // namespace

Staging::Staging(std::unique_ptr<Initiator> channel, const RemoteRegion& region)
    : channel_(std::move(channel)), region_(region) {}

std::optional<Staging::Segment> Staging::allocate(uint64_t bytes) {
  const uint64_t wanted = round_up(std::max<uint64_t>(bytes, 1), kAlignment);
  std::lock_guard lock(segments_mutex_);
  if (segments_.size() >= kMaxSegments || wanted > region_.bytes) return std::nullopt;
  uint64_t offset = 0;
  if (!segments_.empty()) {
    const uint64_t head = segments_.front().offset;
    const uint64_t tail = segments_.back().offset + segments_.back().bytes;
    const bool wrapped = segments_.back().offset < head;
    const uint64_t end = wrapped ? head : region_.bytes;
    if (wanted <= end - tail) {
      offset = tail;
    } else if (wrapped || wanted > head) {
      return std::nullopt;
    }
  }
  const uint64_t id = ++last_id_;
  const auto generation = static_cast<uint32_t>(id / kTransferCounters + 1) % kTransferGenerations;
  segments_.push_back({id, offset, wanted,
                       make_immediate(static_cast<uint32_t>(id % kTransferCounters), generation),
                       false});
  return segments_.back();
}

void Staging::release(uint64_t segment_id) {
  std::lock_guard lock(segments_mutex_);
  for (Segment& segment : segments_) {
    if (segment.id == segment_id) segment.released = true;
  }
  while (!segments_.empty() && segments_.front().released) segments_.pop_front();
}

Status Staging::write(const Segment& segment, std::span<const Slice> sources, const Clock& clock,
                      uint64_t deadline_ns) {
  // Others write before: they may take until the deadline.
  const uint64_t now = clock.now_ns();
  const auto patience =
      std::chrono::nanoseconds(deadline_ns > now ? std::min(deadline_ns - now, kLongestWaitNs) : 0);
  {
    std::unique_lock lock(turn_mutex_);
    if (!turn_ended_.wait_for(lock, patience, [this] { return !writing_; }) ||
        clock.now_ns() >= deadline_ns) {
      return {Code::kTimeout, 0, "the deadline came before the staging could be written"};
    }
    writing_ = true;
  }
  const Status status = write_in_turn(segment, sources, clock, deadline_ns);
  {
    std::lock_guard lock(turn_mutex_);
    writing_ = false;
  }
  turn_ended_.notify_all();
  return status;
}

Status Staging::write_in_turn(const Segment& segment, std::span<const Slice> sources,
                              const Clock& clock, uint64_t deadline_ns) {
  first_tag_ += operations_.size();
  operations_.clear();
  under_way_.assign(sources.size(), false);
  uint64_t offset = segment.offset;
  for (const Slice& source : sources) {
    Operation operation;
    operation.kind = OperationKind::kWrite;
    operation.tag = first_tag_ + operations_.size();
    operation.remote = region_;
    operation.remote_offset = offset;
    operation.local_count = 1;
    operation.local[0] = source;
    operations_.push_back(operation);
    offset += round_up(source.bytes, kAlignment);
  }
  operations_.back().has_immediate = true;
  operations_.back().immediate = segment.immediate;

  std::span<const Operation> left = operations_;
  while (!left.empty()) {
    const PostResult posted = channel_->post(left, deadline_ns);
    const size_t begun = operations_.size() - left.size();
    std::fill_n(under_way_.begin() + static_cast<ptrdiff_t>(begun), posted.accepted, true);
    left = left.subspan(posted.accepted);
    outstanding_ += posted.accepted;
    if (!posted.status.ok()) {
      static_cast<void>(abandon());
      return posted.status;
    }
    if (left.empty()) break;
    if (Status status = await(outstanding_ / 2, clock, deadline_ns); !status.ok()) return status;
  }
  return await(0, clock, deadline_ns);
}

// Until no more than `until` writes are outstanding.
Status Staging::await(size_t until, const Clock& clock, uint64_t deadline_ns) {
  std::array<Completion, kPollBatch> completions;
  while (outstanding_ > until) {
    const size_t count = poll(completions);
    for (const Completion& completion : std::span(completions).first(count)) {
      if (completion.outcome == Outcome::kOk) continue;
      static_cast<void>(abandon());
      return {Code::kUnavailable, completion.vendor, "a write to the staging failed"};
    }
    if (count > 0) continue;
    if (clock.now_ns() >= deadline_ns) return abandon();
    channel_->wait(deadline_ns);
  }
  return {};
}

Status Staging::abandon() {
  channel_->close();
  std::array<Completion, kPollBatch> completions;
  while (outstanding_ > 0) {
    if (poll(completions) == 0) channel_->wait(kNever);
  }
  return {Code::kAborted, 0, "the staging was not written by the deadline"};
}

// What ends an operation, once for each.
size_t Staging::poll(std::span<Completion> completions) {
  const size_t polled = channel_->poll(completions);
  size_t count = 0;
  for (size_t i = 0; i < polled; ++i) {
    const uint64_t operation = completions[i].tag - first_tag_;
    if (operation >= under_way_.size() || !under_way_[operation]) continue;
    under_way_[operation] = false;
    --outstanding_;
    completions[count++] = completions[i];
  }
  return count;
}

}  // namespace farpage
